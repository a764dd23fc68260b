"""List of a set's pitfalls as CSV, a row each, for people to correct: what meeting it says of a response.

`met` is `good` (the weight is earned), `bad` (it is taken away) or `unknown` (it is taken away, as the source says).
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

from rubricworks.data.rubric_sets.entries import RubricEntry
from rubricworks.data.rubric_sets.polarity import Polarity
from rubricworks.data.spreadsheet_cells import guard_cell, unguard_cell
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic

PITFALL_COLUMNS = ("sample_id", "criterion", "description", "weight", "met")


def write_pitfalls(entries: Iterable[RubricEntry], path: Path) -> None:
    """Write the pitfalls of a set, with the weights that they have here."""
    text = io.StringIO()
    writer = csv.DictWriter(text, PITFALL_COLUMNS)
    writer.writeheader()
    for row in _rows(entries):
        writer.writerow({name: guard_cell(cell) for name, cell in row.items()})
    write_atomic(path, text.getvalue().encode())


def _rows(entries: Iterable[RubricEntry]) -> Iterator[dict[str, object]]:
    for entry in entries:
        for criterion, met in entry.pitfalls:
            yield {
                "sample_id": entry.sample_id,
                "criterion": criterion.criterion,
                "description": criterion.description,
                "weight": f"{criterion.weight:g}",
                "met": met,
            }


def read_pitfalls(path: Path) -> dict[str, dict[str, Polarity]]:
    """Polarities by sample and title.

    Raises:
        UserError: the file cannot be read, lacks a column, or has another word under `met`.
    """
    read: dict[str, dict[str, Polarity]] = {}
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if missing := [name for name in ("sample_id", "criterion", "met") if name not in (rows.fieldnames or ())]:
                raise UserError(f"{path}: no column {missing[0]!r}; give the list that an import wrote")
            for row in rows:
                met = (row["met"] or "").strip().lower()
                if met not in get_args(Polarity):
                    raise UserError(f"{path}: line {rows.line_num}: met is {met!r}; write good, bad or unknown")
                named = read.setdefault(unguard_cell(row["sample_id"] or ""), {})
                named[unguard_cell(row["criterion"] or "")] = met  # type: ignore[assignment] # one of them, by now
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as CSV in UTF-8 ({error})") from None
    return read


def check_pitfalls(given: Mapping[str, Mapping[str, Polarity]], entries: Iterable[RubricEntry], path: Path) -> None:
    """Raise UserError for a row that names no pitfall of the set."""
    there = {(entry.sample_id, pitfall.criterion.criterion) for entry in entries for pitfall in entry.pitfalls}
    named = [(sample, title) for sample, titles in given.items() for title in titles]
    if stray := [row for row in named if row not in there]:
        raise UserError(f"{path}: sample {stray[0][0]!r} has no pitfall {stray[0][1]!r:.80}")
