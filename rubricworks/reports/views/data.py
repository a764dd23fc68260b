"""Views of the stages that make data: samples, references written anew, opened questions, filters, labels."""

import json
from collections import Counter
from typing import Any

from rubricworks.evaluation.corpus_statistics import CorpusStatistics, SourceCounts
from rubricworks.evaluation.genrm_statistics import DataStatistics
from rubricworks.reports.examples import drawn_samples, sample_rows
from rubricworks.reports.formats import number, percent, whole
from rubricworks.reports.run_folder import read_ledger, read_rejected, read_value, table_rows
from rubricworks.reports.views.parts import (
    SAMPLE_COLUMNS,
    SEED,
    SHOWN,
    Card,
    Check,
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

_SPLITS = {"train": "To train on", "held_out": "Held out", "warm_up": "For the warm-up"}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def samples(stage: FinishedStage) -> View:
    """Of `prepare` and `prepare_questions`: how many samples there are, and some of them."""
    splits = Counter(row["split"] for row in table_rows(stage.out, ["split"]))
    rejected = read_rejected(stage.run, stage.name)
    source = read_value(stage.out / "data.json", SourceCounts)
    asked = (row["sample_id"] for row in table_rows(stage.out, ["sample_id", "split"]) if row["split"] != "warm_up")
    ids = drawn_samples(asked, SHOWN, SEED) or drawn(stage.out)
    found = sample_rows(stage.out, set(ids), SAMPLE_COLUMNS)
    tables = []
    if source:
        tables.append(Table("Questions by task", ("Task", "Questions"), list(source.tasks.items())))
    if rejected:
        tables.append(Table("Not used", ("Reason", "How many", "The first"), rejected))
    unused = sum(count for _, count, _ in rejected)
    return View(
        sentence=f"{whole(splits.total())} samples" + (f", {whole(unused)} could not be used." if unused else "."),
        metrics={**splits, "rejected": unused},
        tiles=[Tile(name, whole(splits[split])) for split, name in _SPLITS.items() if splits[split]]
        + ([Tile("Duplicates left out", whole(source.duplicates), f"of {whole(source.raw)} rows")] if source else []),
        tables=tables,
        cards_title="Samples",
        cards=[Card(key, picture(row), _asked(row), note=row["split"]) for key in ids if (row := found.get(key))],
    )


def rewritten(stage: FinishedStage) -> View:
    """Of `recap`: reference captions before and after."""
    written = {row["sample_id"] for row in table_rows(stage.out / "captions", ["sample_id"])}
    table = stage.out / "captions" if written else stage.out
    ids = drawn(table)
    before, after = stage.pictures(ids), sample_rows(stage.out, set(ids), ["references"])
    rows = sum(1 for _ in table_rows(stage.out, ["sample_id"]))
    return View(
        sentence=f"{whole(len(written))} of {whole(rows)} reference captions were written anew."
        if written
        else f"{whole(rows)} samples keep the captions that they came with: no captioner was named.",
        metrics={"samples": rows, "rewritten": len(written)},
        cards_title="Before and after",
        cards=[
            Card(
                key,
                picture(before.get(key)),
                [
                    Passage("Came with the image", _first(before.get(key)), kind="base"),
                    Passage("Reference now", _first(after.get(key)), kind="policy"),
                ],
            )
            for key in ids
        ],
    )


def opened(stage: FinishedStage) -> View:
    """Of `open_questions`: multiple-choice questions and what became of them."""
    had = {row["sample_id"] for row in table_rows(stage.inputs["samples"], ["sample_id", "options"]) if row["options"]}
    has = {row["sample_id"] for row in table_rows(stage.out, ["sample_id", "options"]) if row["options"]}
    ids = drawn_samples(sorted(had - has), SHOWN, SEED) or drawn(stage.out)
    before, after = stage.pictures(ids), sample_rows(stage.out, set(ids), SAMPLE_COLUMNS)
    outcomes = last_counts(stage, "multiple_choice")
    return View(
        sentence=f"{whole(len(had - has))} of {whole(len(had))} multiple-choice questions became open ones.",
        metrics={"multiple_choice": len(had), "opened": len(had - has)},
        tables=[Table("Multiple-choice questions", ("The opener's word", "Questions"), outcomes)] if outcomes else [],
        cards_title="Before and after" if had - has else "Questions",
        cards=[
            Card(
                key,
                picture(before.get(key)),
                [
                    *([Passage("Before", _question(before[key]), kind="base")] if key in had - has else []),
                    Passage("Now", _question(row), kind="policy"),
                ],
            )
            for key in ids
            if (row := after.get(key))
        ],
    )


def filtered(stage: FinishedStage) -> View:
    """Of `offline_filter`: which samples are kept, and what the base model's rollouts earned on some."""
    found = read_value(stage.out / "statistics.json", CorpusStatistics)
    if found is None:
        return View("No statistics were written.")
    rows = {row["sample_id"]: row for row in table_rows(stage.out) if row["initial_reward"] is not None}
    ids = drawn_samples(sorted(rows), SHOWN, SEED)
    asked = stage.pictures(ids)
    return View(
        sentence=f"The rule “{found.rule}” keeps {whole(found.kept)} of {whole(found.graded)} graded questions.",
        metrics={
            **found.model_dump(include={"train", "graded", "kept", "filtered_any", "filtered_essential"}),
            "initial_reward": found.initial_reward_converted,
            "initial_reward_kept": found.initial_reward_filtered,
        },
        tiles=[
            Tile("Kept", whole(found.kept), f"of {whole(found.graded)}"),
            Tile("Initial reward", number(found.initial_reward_converted), "of all that were graded"),
            Tile("Initial reward", number(found.initial_reward_filtered), "of those kept"),
            Tile("Multiple choice", percent(found.mcq_filtered), "of those kept"),
        ],
        cards_title="Questions, and what the base model's rollouts earned on them",
        cards=[
            Card(
                key,
                picture(asked.get(key)),
                [Passage("Question", _question(asked.get(key, {})), _rewards(rows[key]["rewards"]))],
                note="kept" if rows[key]["kept"] else "left out",
            )
            for key in ids
        ],
    )


def labelled(stage: FinishedStage) -> View:
    """Of `genrm_data`: what the labels are made of, and some of them."""
    splits = {
        split: DataStatistics.model_validate(of)
        for split, of in json.loads((stage.out / "statistics.json").read_bytes()).items()
    }
    ids = drawn(stage.out)
    rows = {row["sample_id"]: row for row in table_rows(stage.out) if row["sample_id"] in ids}
    asked = stage.pictures(ids)
    columns = ("Split", "Responses", "Criteria", "Each", "With a verifier", "Lose credit")
    return View(
        sentence=f"{whole(sum(one.instances for one in splits.values()))} responses have a label of several teachers.",
        metrics={split: one.instances for split, one in splits.items()},
        tables=[
            Table(
                "The GenRM's data",
                columns,
                [
                    (
                        split,
                        one.instances,
                        one.criteria,
                        number(one.criteria_each),
                        one.verifiable_criteria,
                        one.losing_instances,
                    )
                    for split, one in splits.items()
                ],
            )
        ],
        cards_title="Labels",
        cards=[_label(key, rows[key], asked.get(key)) for key in ids if key in rows],
    )


def last_counts(stage: FinishedStage, name: str) -> list[tuple[str, int]]:
    """A counter in the stage's last line of the ledger, the most frequent first."""
    lines = [entry for entry in read_ledger(stage.run) if entry["stage"] == stage.name]
    found = lines[-1].get(name) if lines else None
    counts = found.items() if isinstance(found, dict) else ()
    return sorted(((str(key), count) for key, count in counts), key=lambda one: (-one[1], one[0]))


def _label(sample_id: str, row: dict[str, Any], sample: dict[str, Any] | None) -> Card:
    from rubricworks.grading import Scoring

    label, rubric = Scoring.model_validate_json(row["label"]), Rubric.model_validate_json(row["rubric"])
    credits = {item.criterion: item.credit for item in (*label.essential, *label.additional)}

    def labelled_as(check: Check) -> Check:
        credit = credits.get(check.title)
        if isinstance(credit, str):
            return check._replace(note=f"{check.note} · label {credit}")
        return check._replace(marks=[("the label", credit)])

    return Card(
        sample_id,
        picture(sample),
        [Passage("Question", row["question"]), Passage("Response", row["response"])],
        [labelled_as(check) for check in criteria_of(rubric)],
        note=row["split"],
    )


def _asked(row: dict[str, Any]) -> list[Passage]:
    """What a sample asks, and the references that it has."""
    if row["question"]:
        return [
            Passage("Question", _question(row)),
            *(Passage("Worked answer", text) for text in row["references"][:1]),
        ]
    references = [Passage("Came with the image", text) for text in row["references"][:2]]
    return [Passage("Prompt", row["prompt"]), *references]


def _question(row: dict[str, Any]) -> str:
    options = [f"{letter}. {option}" for letter, option in zip(_LETTERS, row.get("options") or (), strict=False)]
    answer = [f"Answer: {row['answer']}"] if row.get("answer") else []
    return "\n".join([row.get("question") or row.get("prompt") or "", *options, *answer])


def _first(row: dict[str, Any] | None) -> str:
    return next(iter(row["references"]), "") if row else ""


def _rewards(rewards: str) -> str:
    return "rollouts earned " + ", ".join(number(reward) for reward in json.loads(rewards))
