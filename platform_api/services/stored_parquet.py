"""Parts of a run's Parquet files: some columns of one row group, read as the bytes that hold them and no others."""

import io
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubricworks.runs.store import RunStore

if TYPE_CHECKING:
    import pyarrow as pa

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
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.PythonFile(StoredPart(store, run, path, size), mode="r"))
    except (pa.ArrowException, OSError):
        _log.warning("%s/%s is no Parquet file", run, path)
        return None
    if missing := set(columns) - set(file.schema_arrow.names):  # which reading leaves out in silence
        _log.warning("%s/%s has no column %s", run, path, ", ".join(sorted(missing)))
        return None
    return file


def _read(file: Any, name: str, group: int, columns: list[str]) -> "pa.Table | None":
    import pyarrow as pa

    try:
        return file.read_row_group(group, columns=columns, use_threads=False)
    except (pa.ArrowException, OSError):
        _log.warning("%s is damaged, or was replaced", name)
        return None
