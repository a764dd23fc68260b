"""CSV files of a study: an empty one that people fill in, and the answers of one or several of them."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rubricworks.data.spreadsheet_cells import guard_cell, unguard_cell
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic

RATER = "rater"
"""Column of the person; empty in a file of one."""


def write_label_file(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Write rows as CSV: UTF-8 with a byte order mark, which spreadsheets take for UTF-8."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, [*columns, RATER], extrasaction="ignore", restval="")
    writer.writeheader()
    writer.writerows({name: guard_cell(value) for name, value in row.items()} for row in rows)
    write_atomic(path, buffer.getvalue().encode("utf-8-sig"))


def read_label_file(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Read the rows of a filled-in file, each with its `line` beside its columns; cells are trimmed.

    Raises:
        UserError: the file cannot be read as CSV, or a column is missing.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
                raise UserError(f"{path}: no column {missing[0]}; a file of this study has {', '.join(columns)}")
            rows = []
            for row in reader:
                cells = {name: unguard_cell((row.get(name) or "").strip()) for name in (*columns, RATER)}
                rows.append({**cells, "line": str(reader.line_num)})
            return rows
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error})") from error


def choice(path: Path, row: Mapping[str, str], column: str, choices: Mapping[str, float]) -> float | None:
    """Value of a cell that holds one of some words; None if it is empty.

    Raises:
        UserError: it holds something else; the message has the line.
    """
    cell = row[column].lower()
    if not cell:
        return None
    if cell not in choices:
        raise UserError(f"{path}: line {row['line']}: {column} is {row[column]!r}; write {' or '.join(choices)}")
    return choices[cell]


YES_NO = {"yes": 1.0, "no": 0.0}
