"""Units of a source: tars, row groups and slices of a folder that are read one by one, each from its beginning.

A long job over a source commits unit by unit: what is finished is never read again, and pods take a range of units
each. In a store the units are its tars and Parquet files, downloaded one at a time.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.data.source_entries import Entries, ImageEntry, RejectedEntry, source_files
from rubricworks.data.source_kinds.columns import arrow_file_entries, parquet_file_entries, saved_dataset_files
from rubricworks.data.source_kinds.folders import folder_entries
from rubricworks.data.source_kinds.urls import LIST_SUFFIXES, url_list_entries
from rubricworks.data.source_kinds.webdataset import tar_file_entries
from rubricworks.data.sources import source_hint, source_kind
from rubricworks.errors import UserError
from rubricworks.storage import Bucket, StoredObject

ENTRIES = 1_024
"""Entries of a unit where a source can be divided anywhere."""
_TARS = (".tar", ".tgz", ".tar.gz")


@dataclass(frozen=True)
class SourceUnit:
    """A piece of a source."""

    name: str
    """File below the source, with the first row group or the position in the folder where that is divided."""
    place: str
    """Location for messages."""
    read: Callable[[], Entries]

    def entries(self) -> Entries:
        """Entries in their fixed order; a key that comes a second time is rejected."""
        yield from _distinct(self.read())


def source_units(source: str) -> list[SourceUnit]:
    """Divide a source on this machine; equal sources give equal units.

    Of two files with one name (two shards below a `*` pattern) the second is a unit whose only entry is a rejection,
    because the keys of its images would be those of the first.

    Raises:
        UserError: the path does not exist, or holds no images.
    """
    kind, path = source_kind(source)
    if kind == "webdataset":
        files = _named(source_files(path, (".tar", ".tgz")), path)
        units = _whole_files(files, tar_file_entries)
    elif kind == "parquet":
        files = _named(source_files(path, (".parquet",)), path)
        units = [unit for file, name in files for unit in _groups(file, name)]
    elif kind == "hf":
        units = _whole_files(saved_dataset_files(path), arrow_file_entries)
    elif kind == "urls":
        files = _named(source_files(path, LIST_SUFFIXES), path)
        units = [SourceUnit(name, str(file), partial(url_list_entries, str(file))) for file, name in files]
    else:
        units = _slices(path)
    if not units:
        raise UserError(f"{path}: no images here (read as {kind}); {source_hint(kind)}")
    return _without_namesakes(units)


def stored_units(uri: str, bucket: Bucket, objects: Iterable[StoredObject]) -> list[SourceUnit]:
    """Divide a source in a store, if it is tars or Parquet files; each is downloaded when its unit is read.

    Args:
        uri: the source, for messages.
        objects: its objects; their keys are relative to the bucket's folder.
    Returns:
        No units if there is another kind of file only: the source must then be downloaded whole.
    """
    return [
        SourceUnit(item.key, f"{uri.rstrip('/')}/{item.key}", partial(_fetched_entries, uri, bucket, item.key))
        for item in sorted(objects, key=lambda item: item.key)
        if item.key.lower().endswith((*_TARS, ".parquet"))
    ]


def _fetched_entries(uri: str, bucket: Bucket, key: str) -> Entries:
    with tempfile.TemporaryDirectory(prefix="rubricworks-") as folder:
        file = Path(folder) / Path(key).name
        bucket.download(key, file)
        read = parquet_file_entries if key.lower().endswith(".parquet") else tar_file_entries
        for entry in read(file, key):
            place = f"{uri.rstrip('/')}/{key}{entry.source.removeprefix(str(file))}"
            if isinstance(entry, RejectedEntry):
                yield RejectedEntry(source=place, reason=entry.reason)
            else:
                yield ImageEntry(entry.key, place, entry.read, entry.references, entry.prompt, entry.url)


def _named(files: Sequence[Path], path: str) -> Iterator[tuple[Path, str]]:
    root = Path(path)
    for file in files:
        yield file, file.relative_to(root).as_posix() if root.is_dir() else file.name


def _whole_files(files: Iterable[tuple[Path, str]], read: Callable[[Path, str], Entries]) -> list[SourceUnit]:
    return [SourceUnit(name, str(file), partial(read, file, name)) for file, name in files]


def _slices(path: str) -> list[SourceUnit]:
    """Units of a folder of images, whose names are held in memory, and nothing else of them."""
    entries, units = _distinct(folder_entries(path)), list[SourceUnit]()
    while chunk := list(islice(entries, ENTRIES)):
        name = f"{path}[{len(units) * ENTRIES}:]"
        units.append(SourceUnit(name, name, partial(iter, chunk)))
    return units


def _distinct(entries: Entries) -> Entries:
    keys: set[str] = set()
    for entry in entries:
        if isinstance(entry, ImageEntry) and entry.key in keys:
            yield RejectedEntry(source=entry.source, reason=f"a second image has the key {entry.key}")
            continue
        if isinstance(entry, ImageEntry):
            keys.add(entry.key)
        yield entry


def _groups(file: Path, name: str) -> list[SourceUnit]:
    """Units of a Parquet file: consecutive row groups of `ENTRIES` rows together, or one that is larger."""
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError):
        return [SourceUnit(name, str(file), partial(parquet_file_entries, file, name))]  # it reports the damage
    units, start, rows = [], 0, 0
    for number in range(metadata.num_row_groups):
        rows += metadata.row_group(number).num_rows
        if rows >= ENTRIES or number == metadata.num_row_groups - 1:
            groups = range(start, number + 1)
            read = partial(parquet_file_entries, file, name, groups)
            units.append(SourceUnit(f"{name}[{start}:]", str(file), read))
            start, rows = number + 1, 0
    return units


def _without_namesakes(units: list[SourceUnit]) -> list[SourceUnit]:
    names: set[str] = set()
    distinct = []
    for unit in units:
        if unit.name in names:
            reason = f"a second file is called {unit.name}, so the keys of its images would repeat; rename it"
            unit = SourceUnit(unit.name, unit.place, partial(_rejection, unit.place, reason))
        names.add(unit.name)
        distinct.append(unit)
    return distinct


def _rejection(name: str, reason: str) -> Entries:
    yield RejectedEntry(source=name, reason=reason)
