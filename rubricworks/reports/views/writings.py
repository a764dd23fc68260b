"""Views of the stages that have models write: captions, rubrics, checklists, exams."""

from collections import Counter

from rubricworks.reports.comparison import SEVERITY
from rubricworks.reports.formats import number, percent, whole
from rubricworks.reports.run_folder import table_rows
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
    drawn,
    picture,
)
from rubricworks.rubrics import Rubric


def captions(stage: FinishedStage) -> View:
    """Of the committee, or of the student before its training: some images with all their captions."""
    count: Counter[str] = Counter()
    words: Counter[str] = Counter()
    samples = set()
    for row in table_rows(stage.out, ["sample_id", "captioner", "caption"]):
        count[row["captioner"]] += 1
        words[row["captioner"]] += len(row["caption"].split())
        samples.add(row["sample_id"])
    ids = drawn(stage.out)
    written = [row for row in table_rows(stage.out) if row["sample_id"] in ids]
    asked = stage.pictures(ids)
    return View(
        sentence=f"{whole(count.total())} captions of {whole(len(samples))} images.",
        metrics={"captions": count.total(), "samples": len(samples)},
        tables=[
            Table(
                "Who wrote them",
                ("Captioner", "Captions", "Words each"),
                [(name, number_of, number(words[name] / number_of, 1)) for name, number_of in sorted(count.items())],
            )
        ],
        cards_title="Captions",
        cards=[
            Card(
                key,
                picture(asked.get(key)),
                [Passage(row["captioner"], row["caption"]) for row in written if row["sample_id"] == key],
            )
            for key in ids
        ],
    )


def rubrics(stage: FinishedStage) -> View:
    """Of rubrics and of checklists: what they are made of, and some of them whole."""
    weights: Counter[str] = Counter()
    verifiers: Counter[str] = Counter()
    essential = written = 0
    for row in table_rows(stage.out, ["rubric"]):
        criteria = Rubric.model_validate_json(row["rubric"]).criteria
        written += 1
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
        checked = sorted(verifiers.items(), key=lambda one: -one[1])
        tables.append(Table("Checked by", ("Verifier", "Criteria"), checked))
    if dropped:
        tables.append(Table("Dropped, as the last attempt counted", ("Because", "Criteria"), dropped))
    kinds = [Tile("Essential", percent(essential / total))] if checklists and total else []
    return View(
        sentence=f"{whole(written)} {'checklists' if checklists else 'rubrics'} with {whole(total)} criteria.",
        metrics={
            "rubrics": written,
            "criteria": total,
            "criteria_each": total / written if written else None,
            "dropped_criteria": sum(count for _, count in dropped),
            **({"essential": essential} if checklists else {}),
        },
        tiles=[
            Tile("Rubrics", whole(written)),
            Tile("Criteria each", number(total / written if written else None, 1)),
            *kinds,
        ],
        tables=tables,
        cards_title="Rubrics",
        cards=_rubric_cards(stage),
    )


def _rubric_cards(stage: FinishedStage) -> list[Card]:
    ids = drawn(stage.out)
    shown = {row["sample_id"]: row["rubric"] for row in table_rows(stage.out) if row["sample_id"] in ids}
    asked = stage.pictures(ids)
    # `peer_rubrics` keeps the student's captions below the rubrics.
    said = stage.inputs.get("student_captions", stage.out / "caption_student")
    student = {
        row["sample_id"]: row["caption"]
        for row in table_rows(said, ["sample_id", "caption"])
        if row["sample_id"] in ids
    }
    cards = []
    for key in ids:
        checks, sample = criteria_of(Rubric.model_validate_json(shown[key])), asked.get(key) or {}
        passages = []
        if sample.get("question"):
            passages.append(Passage("Question", sample["question"], sample["answer"] or ""))
        if key in student:
            passages.append(Passage("What the student says", student[key], kind="base"))
        more = len(checks) - MAX_CHECKS
        note = f"{more} more criteria" if more > 0 else ""
        cards.append(Card(key, picture(sample), passages, checks[:MAX_CHECKS], note))
    return cards
