"""Images of recently shown row groups, kept in temporary files: a page of thumbnails asks for one group many times.

Files and not memory, since a group of photographs has tens of megabytes. Those that were not used for longest give way.
Of a group that is larger than all that is kept, the first images are kept and each other one is read when it is asked
for.
"""

import asyncio
import os
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

from rubricworks.platform_api.services.stored_parquet import read_in_batches
from rubricworks.runs.store import RunStore

_MOST_BYTES = 96 * 1024 * 1024
"""Size of all files; copies of tables take 128 MB, and the chart gives both 256 MB."""
_MOST_GROUPS = 64
"""Number of files, each of which is open."""
_ROWS = 8


class RowGroup(NamedTuple):
    """A row group of a run's file of samples."""

    store: RunStore
    run: str
    path: str
    size: int
    modified: Any
    number: int


class _Images:
    """Images of one row group in a file that ends with this object."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile() as file:
            self._file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._file)
        self._places: dict[str, tuple[int, int]] = {}
        self.size = 0
        self.is_whole = True

    def add(self, sample_id: str, image: bytes) -> None:
        os.pwrite(self._file, image, self.size)
        self._places[sample_id] = (self.size, len(image))
        self.size += len(image)

    def get(self, sample_id: str) -> bytes | None:
        begin, length = self._places.get(sample_id, (0, 0))
        return os.pread(self._file, length, begin) if length else None


_kept: dict[RowGroup, _Images] = {}
"""The last used one last."""
_being_read: dict[RowGroup, "asyncio.Task[_Images]"] = {}


async def image_in_group(group: RowGroup, sample_id: str) -> bytes | None:
    """Image of a sample; None if the row group has none of it."""
    if group in _kept:
        images = _kept[group] = _kept.pop(group)
    else:
        if group not in _being_read:
            task = _being_read[group] = asyncio.create_task(asyncio.to_thread(_read, group))
            task.add_done_callback(lambda _: _being_read.pop(group, None))
        images = await asyncio.shield(_being_read[group])  # others wait for it, too
        _keep(group, images)
    found = await asyncio.to_thread(images.get, sample_id)
    if found is None and not images.is_whole:
        return await asyncio.to_thread(_find, group, sample_id)
    return found


def _read(group: RowGroup) -> _Images:
    images = _Images()
    for sample_id, image in _rows(group):
        if images.size + len(image) > _MOST_BYTES:
            images.is_whole = False
            break
        images.add(sample_id, image)
    return images


def _find(group: RowGroup, sample_id: str) -> bytes | None:
    return next((image for name, image in _rows(group) if name == sample_id), None)


def _rows(group: RowGroup) -> Iterator[tuple[str, bytes]]:
    columns = ["sample_id", "image"]
    place = (group.store, group.run, group.path, group.size, group.number)
    for batch in read_in_batches(*place, columns, rows=_ROWS):
        for sample_id, image in zip(*(batch[name] for name in columns), strict=True):
            if image is not None:
                yield sample_id, image


def _keep(group: RowGroup, images: _Images) -> None:
    _kept[group] = images
    while len(_kept) > _MOST_GROUPS or sum(one.size for one in _kept.values()) > _MOST_BYTES:
        _kept.pop(next(iter(_kept)))
