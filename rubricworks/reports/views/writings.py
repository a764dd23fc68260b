"""Views of the stages in which models write captions, rubrics and checklists."""

from collections import Counter

from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.reports.comparison import SEVERITY
from rubricworks.reports.formats import number, percent, whole
from rubricworks.reports.rubric_audit import AUDIT_FILE
from rubricworks.reports.run_folder import read_value, table_rows
from rubricworks.reports.views.data import last_counts
from rubricworks.reports.views.parts import (
    MAX_CHECKS,
    Card,
    FinishedStage,
    Passage,
    Table,
    Tile,
    View,
    criteria_of,
    draw_ids,
    picture,
)
from rubricworks.rubrics import Rubric


def captions(stage: FinishedStage) -> View:
    """The view of a committee's or a student's captions: some images with all their captions."""
    count: Counter[str] = Counter()
    words: Counter[str] = Counter()
    sample_ids = set()
    for row in table_rows(stage.out, ["sample_id", "captioner", "caption"]):
        count[row["captioner"]] += 1
        words[row["captioner"]] += len(row["caption"].split())
        sample_ids.add(row["sample_id"])
    ids = draw_ids(stage.out)
    rows = [row for row in table_rows(stage.out) if row["sample_id"] in ids]
    samples = stage.samples(ids)
    return View(
        sentence=f"{whole(count.total())} captions of {whole(len(sample_ids))} images.",
        metrics={"captions": count.total(), "samples": len(sample_ids)},
        tables=[
            Table(
                "Who wrote them",
                ("Captioner", "Captions", "Words each"),
                [(name, total, number(words[name] / total, 1)) for name, total in sorted(count.items())],
            )
        ],
        cards_title="Captions",
        cards=[
            Card(
                key,
                picture(samples.get(key)),
                [Passage(row["captioner"], row["caption"]) for row in rows if row["sample_id"] == key],
            )
            for key in ids
        ],
    )


def rubrics(stage: FinishedStage) -> View:
    """The view of rubrics or checklists: counts of their criteria, and some of them whole."""
    weights: Counter[str] = Counter()
    verifiers: Counter[str] = Counter()
    essential = rubric_count = 0
    for row in table_rows(stage.out, ["rubric"]):
        criteria = Rubric.model_validate_json(row["rubric"]).criteria
        rubric_count += 1
        essential += sum(criterion.essential for criterion in criteria)
        weights.update(f"{criterion.weight:g}" for criterion in criteria)
        verifiers.update(criterion.verifier or "the judge, by words" for criterion in criteria)
    total = weights.total()
    checklists = len(verifiers) > 1 or essential < total
    dropped = last_counts(stage, "dropped_criteria")
    tables = [
        Table(
            "Criteria by weight",
            ("Weight", "Criteria", "Share"),
            [
                (
                    f"{weight}" if checklists else f"{weight} {SEVERITY.get(weight, '')}",
                    count,
                    percent(count / total),
                )
                for weight, count in sorted(weights.items(), key=lambda one: -float(one[0]))
            ],
        )
    ]
    if checklists:
        by_verifier = sorted(verifiers.items(), key=lambda one: -one[1])
        tables.append(Table("Checked by", ("Verifier", "Criteria"), by_verifier))
    if dropped:
        tables.append(Table("Dropped, as the last attempt counted", ("Because", "Criteria"), dropped))
    audit = read_value(stage.out / AUDIT_FILE, RubricAudit)
    more = [Tile("Essential", percent(essential / total))] if checklists and total else []
    if audit:
        more.append(Tile("Flagged in the audit", percent(audit.flagged.value), f"of {len(audit.findings)}"))
    return View(
        sentence=f"{whole(rubric_count)} {'checklists' if checklists else 'rubrics'} with {whole(total)} criteria.",
        metrics={
            "rubrics": rubric_count,
            "criteria": total,
            "criteria_each": total / rubric_count if rubric_count else None,
            "dropped_criteria": sum(count for _, count in dropped),
            **({"essential": essential} if checklists else {}),
            **({"flagged_rubrics": audit.flagged.value} if audit else {}),
        },
        tiles=[
            Tile("Rubrics", whole(rubric_count)),
            Tile("Criteria each", number(total / rubric_count if rubric_count else None, 1)),
            *more,
        ],
        tables=tables,
        cards_title="Rubrics",
        cards=_rubric_cards(stage),
    )


def _rubric_cards(stage: FinishedStage) -> list[Card]:
    ids = draw_ids(stage.out)
    rubric_texts = {row["sample_id"]: row["rubric"] for row in table_rows(stage.out) if row["sample_id"] in ids}
    samples = stage.samples(ids)
    # `peer_rubrics` keeps the student's captions below the rubrics.
    student_captions = stage.inputs.get("student_captions", stage.out / "caption_student")
    student = {
        row["sample_id"]: row["caption"]
        for row in table_rows(student_captions, ["sample_id", "caption"])
        if row["sample_id"] in ids
    }
    cards = []
    for key in ids:
        checks, sample = criteria_of(Rubric.model_validate_json(rubric_texts[key])), samples.get(key) or {}
        passages = []
        if sample.get("question"):
            passages.append(Passage("Question", sample["question"], sample["answer"] or ""))
        if key in student:
            passages.append(Passage("What the student says", student[key], kind="base"))
        more = len(checks) - MAX_CHECKS
        note = f"{more} more criteria" if more > 0 else ""
        cards.append(Card(key, picture(sample), passages, checks[:MAX_CHECKS], note))
    return cards
