"""Rows of a command-line argument: a table's folder, or any Parquet file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.storage import local_path


def iter_rows(place: str | Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    """Iterate over the rows in order, with the given columns, a few in memory at a time.

    Raises:
        UserError: the table or file is missing or damaged, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = local_path(place)
    if not path.exists():
        raise UserError(f"{place}: there is no such file or folder")
    if path.is_dir():
        try:
            yield from read_rows(path, columns=columns)
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"{error}; it needs {', '.join(columns)}") from error
        return
    try:
        with pq.ParquetFile(path) as file:
            if missing := [column for column in columns if column not in file.schema_arrow.names]:
                raise UserError(f"{place}: no column {missing[0]!r}; it needs {', '.join(columns)}")
            for batch in file.iter_batches(columns=columns):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{place}: cannot be read as Parquet ({str(error).splitlines()[0]})") from error
