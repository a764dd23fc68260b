"""Views of the stages that make data: samples, references written anew, opened questions, filters, labels."""

from collections import Counter
from typing import Any

from rubricworks.data.question_text import option_lines
from rubricworks.evaluation.corpus_statistics import SourceCounts
from rubricworks.reports.formats import whole
from rubricworks.reports.run_folder import read_ledger, read_rejected, read_value, table_rows
from rubricworks.reports.samples import drawn_samples, sample_rows
from rubricworks.reports.views.parts import (
    SAMPLE_COLUMNS,
    SEED,
    SHOWN,
    Card,
    FinishedStage,
    Passage,
    Table,
    Tile,
    View,
    drawn,
    picture,
)

_SPLITS = {"train": "To train on", "held_out": "Held out", "warm_up": "For the warm-up"}


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


def last_counts(stage: FinishedStage, name: str) -> list[tuple[str, int]]:
    """A counter in the stage's last line of the ledger, the most frequent first."""
    lines = [entry for entry in read_ledger(stage.run) if entry["stage"] == stage.name]
    found = lines[-1].get(name) if lines else None
    counts = found.items() if isinstance(found, dict) else ()
    return sorted(((str(key), count) for key, count in counts), key=lambda one: (-one[1], one[0]))


def _asked(row: dict[str, Any]) -> list[Passage]:
    """What a sample asks, and the references that it has."""
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
