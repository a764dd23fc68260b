"""Sections of the stages that make data: samples, captions, rubrics, and any stage's JSON files."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from rubricworks.data.manifest import MANIFEST, PLAN
from rubricworks.data.question_text import option_lines
from rubricworks.evaluation.corpus_statistics import SourceCounts
from rubricworks.evaluation.rubric_audit import RubricAudit
from rubricworks.evaluation.scorers.caption_prompts import StoredExam
from rubricworks.reports.formats import MISSING, number, percent, shortened, whole
from rubricworks.reports.page import Block, unfinished
from rubricworks.reports.parts import Card, Cards, Check, CheckList, Part, Passage, Table, Text, Tile, Tiles
from rubricworks.reports.rubric_audit import AUDIT_FILE
from rubricworks.reports.run_folder import RunFolder, read_rejected, read_value, table_rows
from rubricworks.rubrics import Rubric

MAX_CHECKS = 12
SEVERITY = {"3": "critical", "2": "important", "1": "minor"}
"""Weight of a criterion → its name."""
_SPLITS = {"train": "To train on", "held_out": "Held out", "warm_up": "For the warm-up"}
_BOOKKEEPING = frozenset({"made_from.json", "done.json", PLAN, MANIFEST, "training.json", "handed_on.json"})
_MAX_FILE_BYTES = 100_000
_MAX_ROWS = 60
_SENTENCES = ("outcome", "state")
"""Fields that describe the outcome in words; the first present one becomes the headline."""


def samples(run: RunFolder) -> Block:
    """Samples of the stage: their counts, and some of them."""
    splits = Counter(row["split"] for row in table_rows(run.out, ["split"]))
    rejected = read_rejected(run.path, run.stage)
    source = read_value(run.out / "data.json", SourceCounts)
    candidates = (row["sample_id"] for row in table_rows(run.out, ["sample_id", "split"]) if row["split"] != "warm_up")
    rows = run.samples_of(run.out, run.draw(candidates) or run.draw_from(run.out))
    unused = sum(count for _, count, _ in rejected)
    tiles = [Tile(name, whole(splits[split])) for split, name in _SPLITS.items() if splits[split]]
    if source:
        tiles.append(Tile("Duplicates left out", whole(source.duplicates), f"of {whole(source.raw)} rows"))
    parts: list[Part] = [
        Text(f"{whole(splits.total())} samples" + (f", {whole(unused)} could not be used." if unused else ".")),
        Tiles(tiles),
    ]
    if source:
        parts.append(Table(("Task", "Questions"), list(source.tasks.items()), "Questions by task"))
    if rejected:
        parts.append(Table(("Reason", "How many", "The first"), rejected, "Not used"))
    parts.append(Cards([_sample_card(run, key, row) for key, row in rows.items()]))
    return Block("samples", "Samples", parts, metrics={**splits, "rejected": unused})


def _sample_card(run: RunFolder, sample_id: str, row: dict[str, Any]) -> Card:
    references = row["references"]
    if row["question"]:
        passages = [
            Passage("Question", question_text(row)),
            *(Passage("Worked answer", text) for text in references[:1]),
        ]
    else:
        passages = [
            Passage("Prompt", row["prompt"]),
            *(Passage("Came with the image", text) for text in references[:2]),
        ]
    return Card(sample_id, run.picture(row["image"]), passages, note=row["split"])


def question_text(row: dict[str, Any]) -> str:
    """A question or prompt with its options and its answer."""
    options = [option_lines(row["options"])] if row.get("options") else []
    answer = [f"Answer: {row['answer']}"] if row.get("answer") else []
    return "\n".join([row.get("question") or row.get("prompt") or "", *options, *answer])


def captions(run: RunFolder) -> Block:
    """Captions of the stage: how many each captioner wrote, and some images with all their captions."""
    if missing := unfinished(run, "captions", "Captions", "no captions"):
        return missing
    count: Counter[str] = Counter()
    words: Counter[str] = Counter()
    sample_ids = set()
    for row in table_rows(run.out, ["sample_id", "captioner", "caption"]):
        count[row["captioner"]] += 1
        words[row["captioner"]] += len(row["caption"].split())
        sample_ids.add(row["sample_id"])
    ids = run.draw(sorted(sample_ids))
    by_sample: dict[str, list[Passage]] = {key: [] for key in ids}
    for row in table_rows(run.out, ["sample_id", "captioner", "caption"]):
        if row["sample_id"] in by_sample:
            by_sample[row["sample_id"]].append(Passage(row["captioner"], row["caption"]))
    images = run.samples(ids)
    return Block(
        "captions",
        "Captions",
        [
            Text(f"{whole(count.total())} captions of {whole(len(sample_ids))} images."),
            Table(
                ("Captioner", "Captions", "Words each"),
                [(name, total, number(words[name] / total, 1)) for name, total in sorted(count.items())],
            ),
            Cards([Card(key, run.picture(images.get(key, {}).get("image")), of) for key, of in by_sample.items()]),
        ],
        metrics={"captions": count.total(), "samples": len(sample_ids)},
    )


def rubrics(run: RunFolder) -> Block:
    """Rubrics or checklists of the stage: counts of their criteria, and some of them whole."""
    if missing := unfinished(run, "rubrics", "Rubrics", "no rubrics"):
        return missing
    weights: Counter[str] = Counter()
    verifiers: Counter[str] = Counter()
    essential = rubric_count = 0
    for row in table_rows(run.out, ["rubric"]):
        criteria = Rubric.model_validate_json(row["rubric"]).criteria
        rubric_count += 1
        essential += sum(criterion.essential for criterion in criteria)
        weights.update(f"{criterion.weight:g}" for criterion in criteria)
        verifiers.update(criterion.verifier or "the judge, by words" for criterion in criteria)
    total, dropped = weights.total(), run.last_counts(run.stage, "dropped_criteria")
    each = total / rubric_count if rubric_count else None
    checklists = len(verifiers) > 1 or essential < total
    audit = read_value(run.out / AUDIT_FILE, RubricAudit)
    tiles = [Tile("Rubrics", whole(rubric_count)), Tile("Criteria each", number(each, 1))]
    if checklists and total:
        tiles.append(Tile("Essential", percent(essential / total)))
    if audit:
        tiles.append(Tile("Flagged in the audit", percent(audit.flagged.value), f"of {len(audit.findings)}"))
    by_weight = [
        (weight if checklists else f"{weight} {SEVERITY.get(weight, '')}", count, percent(count / total))
        for weight, count in sorted(weights.items(), key=lambda item: -float(item[0]))
    ]
    parts: list[Part] = [
        Text(f"{whole(rubric_count)} {'checklists' if checklists else 'rubrics'} with {whole(total)} criteria."),
        Tiles(tiles),
        Table(("Weight", "Criteria", "Share"), by_weight),
    ]
    if checklists:
        parts.append(Table(("Verifier", "Criteria"), verifiers.most_common(), "Checked by"))
    if dropped:
        parts.append(Table(("Because", "Criteria"), dropped, "Dropped, as the last attempt counted"))
    return Block(
        "rubrics",
        "Rubrics",
        [*parts, Cards(_rubric_cards(run))],
        metrics={
            "rubrics": rubric_count,
            "criteria": total,
            "criteria_each": each,
            "dropped_criteria": sum(count for _, count in dropped),
            **({"essential": essential} if checklists else {}),
            **({"flagged_rubrics": audit.flagged.value} if audit else {}),
        },
    )


def _rubric_cards(run: RunFolder) -> list[Card]:
    ids = run.draw_from(run.out)
    texts = {row["sample_id"]: row["rubric"] for row in table_rows(run.out) if row["sample_id"] in ids}
    shown = run.samples(ids)
    # `peer_rubrics` keeps the student's captions below the rubrics.
    student_captions = run.inputs.get("student_captions", run.out / "caption_student")
    student = {
        row["sample_id"]: row["caption"]
        for row in table_rows(student_captions, ["sample_id", "caption"])
        if row["sample_id"] in ids
    }
    cards = []
    for key in ids:
        checks, sample = criteria_of(Rubric.model_validate_json(texts[key])), shown.get(key) or {}
        passages = []
        if sample.get("question"):
            passages.append(Passage("Question", sample["question"], sample["answer"] or ""))
        if key in student:
            passages.append(Passage("What the student says", student[key], kind="base"))
        more = len(checks) - MAX_CHECKS
        note = f"{more} more criteria" if more > 0 else ""
        lists = [CheckList(checks[:MAX_CHECKS])]
        cards.append(Card(key, run.picture(sample.get("image")), passages, lists, note=note))
    return cards


def exams(run: RunFolder) -> Block:
    """Exams of the stage: their counts, and some with their right options."""
    counts = [
        len(StoredExam.model_validate_json(row["questions"]).questions) for row in table_rows(run.out, ["questions"])
    ]
    ids = run.draw_from(run.out)
    texts = {row["sample_id"]: row["questions"] for row in table_rows(run.out) if row["sample_id"] in ids}
    images = run.samples(ids)
    cards = [
        Card(
            key,
            run.picture(images.get(key, {}).get("image")),
            [
                Passage(question.question, option_lines(question.options), f"right: {question.answer}")
                for question in StoredExam.model_validate_json(texts[key]).questions[:MAX_CHECKS]
            ],
        )
        for key in ids
    ]
    sentence = f"{whole(len(counts))} exams with {whole(sum(counts))} questions."
    metrics = {"exams": float(len(counts)), "questions": float(sum(counts))}
    return Block("exams", "Exams", [Text(sentence), Cards(cards)], metrics=metrics)


def criteria_of(rubric: Rubric) -> list[Check]:
    """A rubric's criteria by descending weight; with references, essential ones before the others."""
    typed = any(criterion.reference for criterion in rubric.criteria)
    ordered = sorted(rubric.criteria, key=lambda criterion: (typed and not criterion.essential, -criterion.weight))
    return [
        Check(
            title=criterion.criterion,
            weight=f"{criterion.weight:g}",
            note=shortened(
                f"{'essential' if criterion.essential else 'additional'}: {criterion.reference}"
                if typed
                else criterion.evaluation_rule or criterion.description
            ),
        )
        for criterion in ordered
    ]


def files(run: RunFolder) -> Block:
    """The small JSON files of a stage: a list of similar objects by columns, anything else with one row per leaf."""
    tables: list[Part] = []
    values: dict[str, str] = {}
    for path in sorted(run.out.glob("*.json")):
        if path.name in _BOOKKEEPING or path.stat().st_size > _MAX_FILE_BYTES:
            continue
        value = json.loads(path.read_bytes())
        title = path.stem.replace("_", " ").capitalize()
        if columns := _columns(value):
            rows = [tuple(_text(row[name]) for name in columns) for row in value]
            tables.append(Table([name.capitalize() for name in columns], rows[:_MAX_ROWS], title))
        else:
            leaves = list(_leaves(value))
            values |= dict(leaves)
            tables.append(Table(("Name", "Value"), leaves[:_MAX_ROWS], title))
    sentence = next((values[name] for name in _SENTENCES if name in values), "")
    return Block("files", parts=[*([Text(sentence, "headline open")] if sentence else []), *tables])


def _columns(value: Any) -> list[str]:
    """The fields of a list of objects with the same fields; empty for anything else."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return []
    names = {tuple(item) for item in value}
    return list(names.pop()) if len(names) == 1 else []


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every leaf of a JSON value, its name as `outer.inner`."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value, start=1):
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    return MISSING if value is None else shortened(str(value))
