"""Rows in one file that a command writes: Parquet or CSV, by the file's ending."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.spreadsheet_cells import guard_cell
from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.terminal import echo

_FORMATS = (".parquet", ".csv")


def check_row_file(path: Path) -> None:
    """Raise UserError unless rows can be written to this file: before anything is paid for."""
    if path.is_dir():
        raise UserError(f"--out {path} is a folder; name a file, such as {path / 'scorecards.parquet'}")
    if path.suffix.lower() not in _FORMATS:
        raise UserError(f"--out {path}: the file is written as {' or '.join(_FORMATS)}; let it end so")


def write_rows(rows: Sequence[dict[str, object]], path: Path, schema: pa.Schema | None = None) -> None:
    """Write rows to one file, whole or not at all, and print how many.

    A text that a spreadsheet would carry out as a formula stands in CSV with an apostrophe before it.

    Args:
        schema: types of the columns; inferred by default.
    """
    content = BytesIO()
    if path.suffix.lower() == ".csv":
        from pyarrow.csv import write_csv

        cells = [{name: guard_cell(value) for name, value in row.items()} for row in rows]
        write_csv(pa.Table.from_pylist(cells, schema=schema), content)
    else:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), content)
    write_atomic(path, content.getvalue())
    echo(f"{path}: {len(rows)} rows")
