"""Views of the stages that prepare samples, and what other views of data share."""

from collections import Counter
from typing import Any

from rubricworks.data.question_text import option_lines
from rubricworks.evaluation.corpus_statistics import SourceCounts
from rubricworks.reports.formats import whole
from rubricworks.reports.run_folder import read_ledger, read_rejected, read_value, table_rows
from rubricworks.reports.samples import draw_samples, sample_rows
from rubricworks.reports.views.parts import (
    CARD_COUNT,
    SAMPLE_COLUMNS,
    SEED,
    Card,
    FinishedStage,
    Passage,
    Table,
    Tile,
    View,
    draw_ids,
    picture,
)

_SPLITS = {"train": "To train on", "held_out": "Held out", "warm_up": "For the warm-up"}


def samples(stage: FinishedStage) -> View:
    """The view of `prepare` and `prepare_questions`: counts of samples, and some of them."""
    splits = Counter(row["split"] for row in table_rows(stage.out, ["split"]))
    rejected = read_rejected(stage.run, stage.name)
    source = read_value(stage.out / "data.json", SourceCounts)
    candidates = (
        row["sample_id"] for row in table_rows(stage.out, ["sample_id", "split"]) if row["split"] != "warm_up"
    )
    ids = draw_samples(candidates, CARD_COUNT, SEED) or draw_ids(stage.out)
    rows = sample_rows(stage.out, set(ids), SAMPLE_COLUMNS)
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
        cards=[Card(key, picture(row), _passages(row), note=row["split"]) for key in ids if (row := rows.get(key))],
    )


def last_counts(stage: FinishedStage, name: str) -> list[tuple[str, int]]:
    """A counter in the stage's last line of the ledger, the most frequent first."""
    lines = [entry for entry in read_ledger(stage.run) if entry["stage"] == stage.name]
    value = lines[-1].get(name) if lines else None
    counts = value.items() if isinstance(value, dict) else ()
    return sorted(((str(key), count) for key, count in counts), key=lambda one: (-one[1], one[0]))


def _passages(row: dict[str, Any]) -> list[Passage]:
    """A sample's question or prompt, and its references."""
    if row["question"]:
        return [
            Passage("Question", question_text(row)),
            *(Passage("Worked answer", text) for text in row["references"][:1]),
        ]
    references = [Passage("Came with the image", text) for text in row["references"][:2]]
    return [Passage("Prompt", row["prompt"]), *references]


def question_text(row: dict[str, Any]) -> str:
    options = [option_lines(row["options"])] if row.get("options") else []
    answer = [f"Answer: {row['answer']}"] if row.get("answer") else []
    return "\n".join([row.get("question") or row.get("prompt") or "", *options, *answer])
