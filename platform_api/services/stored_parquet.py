"""Parts of a run's Parquet files: some columns of one row group, read as the bytes that hold them and no others.

Text is decoded a few rows at a time: a whole shard of it takes megabytes, and mapping and clearing them anew for each
request costs more than the decoding.
"""

import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubricworks.runs.store import RunStore

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_AT_ONCE = 64
_log = logging.getLogger(__name__)


class StoredPart(io.RawIOBase):
    """A file of a run, of which each read asks the storage for its bytes alone."""

    def __init__(self, store: RunStore, run: str, path: str, size: int) -> None:
        super().__init__()
        self._store, self._run, self._path, self._size, self._at = store, run, path, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        content = self._store.read_range(self._run, self._path, self._at, length)
        if content is None:
            raise FileNotFoundError(f"{self._run}/{self._path} is gone")
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def read_row_group(
    store: RunStore, run: str, path: str, size: int, group: int, columns: list[str]
) -> dict[str, list[Any]] | None:
    """Columns of a row group; None, and a line in the log, if the file is gone, no Parquet, or lacks one of them."""
    file = _open(store, run, path, size, columns)
    if file is None or group >= file.num_row_groups:
        return None
    table = _read(file, f"{run}/{path}", group, columns)
    return None if table is None else table.to_pydict()


def read_in_batches(
    store: RunStore, run: str, path: str, size: int, group: int, columns: list[str], *, rows: int
) -> Iterator[dict[str, list[Any]]]:
    """Columns of a row group, so many rows at a time; ends, with a line in the log, where `read_row_group` has None."""
    import pyarrow as pa

    file = _open(store, run, path, size, columns)
    if file is None or group >= file.num_row_groups:
        return
    try:
        for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=columns, use_threads=False):
            yield batch.to_pydict()
    except (pa.ArrowException, OSError):
        _log.warning("%s/%s is damaged, or was replaced", run, path)


def rows_with(content: bytes, name: str, values: Mapping[str, Any], columns: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a Parquet file's rows that hold given values, in their order; those of the columns that it has.

    Empty, and a line in the log, if it is no Parquet file or lacks a column of the values.
    """
    import pyarrow as pa

    file = _parse(pa.BufferReader(content), name, [*values])
    if file is None:
        return {}
    found: dict[str, list[Any]] = {one: [] for one in columns if one in file.schema_arrow.names}
    try:
        for group in range(file.num_row_groups):
            if _may_hold(file.metadata.row_group(group), values):
                keys = file.read_row_group(group, columns=[*values], use_threads=False)
                _append_rows(found, file, group, _rows_with(keys, values))
    except (pa.ArrowException, OSError):
        _log.warning("%s is damaged", name)
        return {}
    return found


def _may_hold(group: Any, values: Mapping[str, Any]) -> bool:
    """Return False if the statistics of a column, which most writers leave, tell that no row holds its value."""
    for number in range(group.num_columns):
        column = group.column(number)
        value, known = values.get(column.path_in_schema), column.statistics
        if value is None or known is None or not known.has_min_max or not isinstance(known.min, type(value)):
            continue
        if not known.min <= value <= known.max:
            return False
    return True


def _rows_with(keys: "pa.Table", values: Mapping[str, Any]) -> list[int]:
    # Arrow's own comparisons and NumPy's arrays of it import pandas first: a tenth of a second and 30 MB.
    (first, value), *others = values.items()
    rows = [row for row, held in enumerate(keys[first].to_pylist()) if held == value]
    for key, value in others:
        column = keys[key]
        rows = [row for row in rows if column[row].as_py() == value]
    return rows


def _append_rows(found: dict[str, list[Any]], file: Any, group: int, rows: list[int]) -> None:
    first = 0
    batches = file.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=[*found], use_threads=False) if rows else ()
    for batch in batches:
        for name, values in found.items():
            column = batch[name]
            values += [column[row - first].as_py() for row in rows if first <= row < first + batch.num_rows]
        first += batch.num_rows
        if first > rows[-1]:
            return


def groups_of_values(store: RunStore, run: str, path: str, size: int, column: str) -> dict[str, int]:
    """Row group of each value of a column; empty if the file has no such column."""
    file = _open(store, run, path, size, [column])
    groups: dict[str, int] = {}
    for group in range(file.num_row_groups if file else 0):
        table = _read(file, f"{run}/{path}", group, [column])
        for value in table[column].to_pylist() if table is not None else ():
            groups.setdefault(value, group)
    return groups


def copy_columns(store: RunStore, run: str, path: str, size: int, columns: Sequence[str], target: Path) -> None:
    """Write those of a file's columns that it has into a file of their own, a row group in memory at a time."""
    import pyarrow.parquet as pq

    file = _open(store, run, path, size, [])
    if file is None:
        return
    present = [name for name in columns if name in file.schema_arrow.names]
    schema = file.schema_arrow.empty_table().select(present).schema
    with pq.ParquetWriter(target, schema) as writer:
        for group in range(file.num_row_groups):
            if (table := _read(file, f"{run}/{path}", group, present)) is not None:
                writer.write_table(table)


def _open(store: RunStore, run: str, path: str, size: int, columns: list[str]) -> Any:
    import pyarrow as pa

    return _parse(pa.PythonFile(StoredPart(store, run, path, size), mode="r"), f"{run}/{path}", columns)


def _parse(source: Any, name: str, columns: list[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(source)
    except (pa.ArrowException, OSError):
        _log.warning("%s is no Parquet file", name)
        return None
    if missing := set(columns) - set(file.schema_arrow.names):  # which reading leaves out in silence
        _log.warning("%s has no column %s", name, ", ".join(sorted(missing)))
        return None
    return file


def _read(file: Any, name: str, group: int, columns: list[str]) -> "pa.Table | None":
    import pyarrow as pa

    try:
        return file.read_row_group(group, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError):
        _log.warning("%s is damaged, or was replaced", name)
        return None
