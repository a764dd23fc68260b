"""The reader of run tables: rows of the Parquet files below a run's folder, on this machine or in a bucket.

    table = StoredTable(store, "nightly-7", "score", "scores", manifest.shards)
    table.rows(start=100, limit=50)
    table.first_where("sample_id", "a1")
    TableFile(store, "nightly-7", "train_policy/rollouts/part-00000.parquet", version).rows_where({"step": 40})

A reader takes the columns and row groups that it needs and decodes no others. The bytes are taken from the storage
once: what was read last is kept in one temporary file of a bounded size, `_kept`. A file with images is read by
ranges, and of it the images are kept, since a page of thumbnails asks for one row group many times.
"""

import io
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from rubricworks.data.manifest import Shard
from rubricworks.data.source_entries import file_name
from rubricworks.runs.bounded_parquet import BadParquet, ReadRange, batches_of, check_columns, decode
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote
from rubricworks.storage.confined_files import UnreadableFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

T = TypeVar("T")
V = TypeVar("V")
Row = dict[str, Any]
"""A row of a table, as JSON has it: the edge at which a schema of the caller's makes a value of it."""
_KEPT_BYTES = 96 * 1024 * 1024
"""Size of the temporary file; copies of tables take 128 MB, and the chart gives both 256 MB."""
_MOST_COPIED = 128 * 1024 * 1024
_ROWS_AT_ONCE = 8
"""Rows with images that are decoded together."""


class UnreadableTable(UnreadableFile):
    """A file of a table is gone, damaged or lacks a column; where a run replaces it, it is there in a moment."""


class _RecentBytes:
    """Ring buffer of contents by key, in one temporary file."""

    def __init__(self, most: int) -> None:
        self.most, self._end = most, 0
        self._lock = threading.Lock()
        self._places: dict[object, tuple[int, int]] = {}
        self._order: deque[object] = deque()
        """Keys by their places, the next to be overwritten first."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it ends with the process

    @property
    def size(self) -> int:
        """Bytes of all contents."""
        return sum(length for _, length in self._places.values())

    def get(self, key: object) -> bytes | None:
        with self._lock:
            if (place := self._places.get(key)) is None:
                return None
            return os.pread(self._file.fileno(), place[1], place[0])

    def put(self, key: object, content: bytes) -> None:
        """Store a content unless it is larger than the file."""
        with self._lock:
            if key in self._places or len(content) > self.most:
                return
            begin = self._end if self._end + len(content) <= self.most else 0
            if begin == 0:
                while self._order and self._places[self._order[0]][0] >= self._end:
                    del self._places[self._order.popleft()]
            self._end = begin + len(content)
            while self._order and begin <= self._places[self._order[0]][0] < self._end:
                del self._places[self._order.popleft()]
            os.pwrite(self._file.fileno(), content, begin)
            self._places[key] = (begin, len(content))
            self._order.append(key)


_kept = _RecentBytes(_KEPT_BYTES)
_reading: dict[object, threading.Lock] = {}
"""Locks of the row groups whose images are being read."""


def _start_afresh() -> None:
    """Forget the entries of the parent process after a fork, since it continues to write into the same file."""
    global _kept
    _kept = _RecentBytes(_KEPT_BYTES)
    _reading.clear()


os.register_at_fork(after_in_child=_start_afresh)


@dataclass(frozen=True)
class TableFile:
    """One Parquet file of a run."""

    store: RunStore
    run: str
    path: str
    version: Hashable
    """Digest, or size and time, that distinguishes the file from a replacement."""
    ranged_size: int | None = None
    """Size of a file with images, from which each read fetches only its own bytes."""
    kind: str | None = None
    """Name of the schema that its columns must have."""

    @property
    def name(self) -> str:
        """Run and path."""
        return f"{self.run}/{self.path}"

    def columns(self, names: Sequence[str] | None = None, groups: Sequence[int] | None = None) -> "pa.Table":
        """Some columns of some row groups, by default all. Arrow's take a fraction of the memory of rows.

        Raises:
            UnreadableTable: the file is gone, damaged or lacks one of the columns.
        """
        file = self._open(names)
        present = range(file.num_row_groups) if groups is None else [at for at in groups if at < file.num_row_groups]
        return self._read(file, present, names)

    def rows(self, start: int = 0, limit: int | None = None) -> list[Row]:
        """Rows from a place on; only the row groups that hold them are decoded."""
        file = self._open()
        counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        begins = list(accumulate(counts, initial=0))
        end = begins[-1] if limit is None else start + limit
        groups = [at for at, count in enumerate(counts) if begins[at] < end and begins[at] + count > start]
        if not groups:
            return []
        return self._read(file, groups, None).slice(start - begins[groups[0]], limit).to_pylist()

    def rows_at(self, places: Collection[int], names: Sequence[str]) -> dict[int, Row]:
        """Rows by number, with the requested columns that the file has; each row group is decoded once."""
        file = self._open(())
        present = [name for name in file.schema_arrow.names if name in names]
        rows: dict[int, Row] = {}
        begin = 0
        for group in range(file.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            if here := [place for place in places if begin <= place < end]:
                table = self._read(file, [group], present)
                rows |= {place: {name: table[name][place - begin].as_py() for name in present} for place in here}
            begin = end
        return rows

    def rows_where(self, values: Mapping[str, str | int], names: Sequence[str] | None = None) -> list[Row]:
        """Rows that hold the values, in their order, with the requested columns that the file has."""
        file = self._open([*values])
        if self.kind is not None:
            with self._explained():
                check_columns(file.schema_arrow, self.kind, names)
        present = [name for name in file.schema_arrow.names if names is None or name in names]
        rows: list[Row] = []
        for group in range(file.num_row_groups):
            with self._explained():
                may_hold = _may_hold(file.metadata.row_group(group), values)
            if not may_hold:
                continue
            if places := _places_of(self._read(file, [group], [*values]), values):
                table = self._read(file, [group], present)
                rows += [{name: table[name][place].as_py() for name in present} for place in places]
        return rows

    def sample_places(self) -> dict[str, tuple[int, str]]:
        """Sample of a table of samples → the first row group that holds it, and the name of its file."""
        file = self._open(["sample_id"])
        columns = [name for name in ("sample_id", "source") if name in file.schema_arrow.names]
        places: dict[str, tuple[int, str]] = {}
        for group in range(file.num_row_groups):
            for row in self._read(file, [group], columns).to_pylist():
                places.setdefault(row["sample_id"], (group, file_name(row.get("source") or "")))
        return places

    def image(self, group: int, sample_id: str) -> bytes | None:
        """Image of a sample in a row group; None if it has none. The group's images are kept for the next reader."""
        place = (*self._key, group)
        with _reading.setdefault(place, threading.Lock()):
            image = _kept.get((*place, sample_id))
            for name, content in self._images(group) if image is None else ():
                _kept.put((*place, name), content)
                image = content if name == sample_id else image
        _reading.pop(place, None)
        return image or None

    def copy(self, columns: Sequence[str] | None, target: Path) -> None:
        """Write the requested columns that the file has to a new file, with one row group in memory at a time.

        All columns (None) are those of the schema, of which a file may lack those that may be empty.

        Raises:
            UnreadableTable: the file is damaged, or takes too much memory for one who reads it as a whole.
        """
        import pyarrow.parquet as pq

        file = self._open(None if columns is None else ())
        names = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
        size = 0
        with pq.ParquetWriter(target, self._read(file, [], names).schema) as writer:
            for group in range(file.num_row_groups):
                rows = self._read(file, [group], names)
                size += rows.nbytes
                if size > _MOST_COPIED:
                    raise UnreadableTable(f"{self.name} takes more than {_MOST_COPIED >> 20} MB of memory")
                writer.write_table(rows)

    @property
    def _key(self) -> tuple[Hashable, ...]:
        return self.store.uri, self.run, self.path, self.version

    def _open(self, columns: Sequence[str] | None = None) -> "pq.ParquetFile":
        import pyarrow as pa
        import pyarrow.parquet as pq

        source = pa.BufferReader(self._content()) if self.ranged_size is None else pa.PythonFile(_Ranges(self), "r")
        with self._explained():
            file = pq.ParquetFile(source)
            present = file.schema_arrow.names
            if self.kind is not None:
                check_columns(file.schema_arrow, self.kind, columns)
        if missing := set(columns or ()) - set(present):  # which reading leaves out in silence
            raise UnreadableTable(f"{self.name} has no column {', '.join(sorted(missing))}")
        return file

    def _content(self) -> bytes:
        content = _kept.get(self._key)
        if content is None:
            content = self.store.read(self.run, self.path)
            if content is None:
                raise UnreadableTable(f"{self.name} is gone")
            _kept.put(self._key, content)
        return content

    def _read(self, file: "pq.ParquetFile", groups: Sequence[int], names: Sequence[str] | None) -> "pa.Table":
        # `pq.read_table` goes through data sets and threads, which take 50 MB before the first row.
        with self._explained():
            return decode(file, groups, names, kind=self.kind, read_range=self._page_reader)

    @property
    def _page_reader(self) -> ReadRange | None:
        """Reader of page headers; none in a bucket, where each of them would be a request."""
        if self.ranged_size is not None and is_remote(self.store.uri):
            return None
        if self.ranged_size is not None:
            return lambda start, length: self.store.read_range(self.run, self.path, start, length) or b""
        content = self._content()
        return lambda start, length: content[start : start + length]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except BadParquet as error:
            raise UnreadableTable(f"{self.name} is no table to read: {error}") from error
        except (pa.ArrowException, OSError, ValueError) as error:  # a column's name may be no text
            raise UnreadableTable(f"{self.name} is no Parquet file, is damaged, or was replaced") from error

    def _images(self, group: int) -> Iterator[tuple[str, bytes]]:
        """Sample and image of each row; empty for one without, so that it is known."""
        names = ["sample_id", "image"]
        file = self._open(names)
        if group >= file.num_row_groups:
            return
        with self._explained():
            for batch in batches_of(file, [group], names, self._page_reader, most_rows=_ROWS_AT_ONCE):
                batch.validate(full=True)
                for sample_id, image in zip(*(batch[name].to_pylist() for name in names), strict=True):
                    yield sample_id, image or b""


def parse_cell(where: str, parse: Callable[[V], T], value: V) -> T:
    """Parse one or several JSON texts of a row with the reader that validates them.

    Args:
        where: the table and the row, in words.
    Raises:
        UnreadableTable: it is not what the reader takes.
    """
    try:
        return parse(value)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"])) or "its value"
        raise UnreadableTable(f"{where}: {place}: {problem['msg']}") from error
    except ValueError as error:
        raise UnreadableTable(f"{where}: {error}") from error


@dataclass(frozen=True)
class StoredTable:
    """A finished table of a run."""

    store: RunStore
    run: str
    path: str
    """Folder below the run's."""
    kind: str
    """Name of its schema."""
    shards: Sequence[Shard]

    @property
    def name(self) -> str:
        """Run and path."""
        return f"{self.run}/{self.path}"

    def __iter__(self) -> Iterator[Row]:
        """All rows, shard by shard."""
        for file in self.files():
            yield from file.rows()

    def rows(self, start: int = 0, limit: int | None = None) -> list[Row]:
        """Rows from a place on; only the files that hold them are read."""
        rows: list[Row] = []
        first = 0
        for shard, file in zip(self.shards, self.files(), strict=True):
            if first + shard.rows > start and (limit is None or len(rows) < limit):
                rows += file.rows(max(0, start - first), None if limit is None else limit - len(rows))
            first += shard.rows
        return rows

    def first_where(self, column: str, value: str | int) -> Row | None:
        """First row with a value in a column."""
        return next((row for file in self.files() for row in file.rows_where({column: value})), None)

    def files(self) -> Iterator[TableFile]:
        """Files of the table, in the order of its rows."""
        for shard in self.shards:
            yield TableFile(self.store, self.run, f"{self.path}/{shard.name}", shard.sha256, kind=self.kind)


class _Ranges(io.RawIOBase):
    """A file of a run, from which each read fetches only its own bytes."""

    def __init__(self, file: TableFile) -> None:
        super().__init__()
        self._of, self._size, self._at = file, file.ranged_size or 0, 0

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
        content = self._of.store.read_range(self._of.run, self._of.path, self._at, length)
        if content is None:
            raise FileNotFoundError(f"{self._of.name} is gone")
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def _may_hold(group: Any, values: Mapping[str, Any]) -> bool:
    """Return False if the column's statistics, which most writers store, rule the value out."""
    for number in range(group.num_columns):
        column = group.column(number)
        value, known = values.get(column.path_in_schema), column.statistics
        if value is None or known is None or not known.has_min_max or not isinstance(known.min, type(value)):
            continue
        if not known.min <= value <= known.max:
            return False
    return True


def _places_of(keys: "pa.Table", values: Mapping[str, Any]) -> list[int]:
    # Arrow's own comparisons and NumPy's arrays of it import pandas first: a tenth of a second and 30 MB.
    (first, value), *others = values.items()
    places = [place for place, held in enumerate(keys[first].to_pylist()) if held == value]
    for key, value in others:
        column = keys[key]
        places = [place for place in places if column[place].as_py() == value]
    return places
