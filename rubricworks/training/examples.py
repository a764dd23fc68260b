"""Examples of supervised training: in memory, or read from a table when a batch needs them."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rubricworks.data.manifest import read_manifest
from rubricworks.data.tables import read_rows, shard_paths
from rubricworks.errors import UserError

if TYPE_CHECKING:
    from rubricworks.training.processing import Messages

CACHED_BYTES = 1 << 30
"""Images of row groups that a process holds at most; `RowGroupOrder` needs fewer. A smaller table is held whole."""
_OPEN_FILES = 32
_TEXTS = 4_096
"""Texts that are Python objects at a time."""


class Example(NamedTuple):
    """One prompt, with its image if there is one, and the target text."""

    image: bytes | None
    prompt: "str | Messages"
    caption: str


class Conversation(NamedTuple):
    """Turns of user and assistant, with their images in the order of their places."""

    images: list[bytes]
    messages: "Messages"


T = TypeVar("T", Example, Conversation)


class StoredImages:
    """Images of a table by row, read a row group at a time; any process may read after a fork."""

    def __init__(self, samples: Path, columns: Sequence[str] = ("image",)) -> None:
        """
        Args:
            columns: those that are read by row.
        """
        self.samples, self._columns = samples, list(columns)
        self._paths = shard_paths(samples)
        self._groups: list[tuple[int, int]] = []
        """File and row group of each group of the table."""
        sizes, ids = [], []
        for number, path in enumerate(self._paths):
            with pq.ParquetFile(path) as file:
                self._groups += [(number, group) for group in range(file.num_row_groups)]
                sizes += [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
                ids.append(file.read(columns=["sample_id"], use_threads=False)["sample_id"])
        self._ids = pa.chunked_array([chunk for column in ids for chunk in column.chunks], pa.string())
        self._starts = np.cumsum([0, *sizes])
        """First row of each group, and the number of rows."""
        self.bytes = sum(path.stat().st_size for path in self._paths)
        self._files: OrderedDict[int, pq.ParquetFile] = OrderedDict()
        self._cache: OrderedDict[int, tuple[pa.Table, int]] = OrderedDict()
        self.cached_bytes = 0

    def rows(self, sample_ids: pa.Array) -> np.ndarray:
        """Rows of samples.

        Raises:
            UserError: the table lacks one of them.
        """
        rows = pc.index_in(sample_ids, self._ids)
        if rows.null_count:
            missing = sample_ids.filter(pc.is_null(rows))[0]
            raise UserError(f"{self.samples}: no sample {missing}")
        return np.asarray(rows)

    def places(self, rows: np.ndarray) -> np.ndarray:
        """File and row group, counted over all files, of each row; shape [N, 2]."""
        groups = np.searchsorted(self._starts, rows, side="right") - 1
        return np.stack([np.array([file for file, _ in self._groups], dtype=int)[groups], groups], axis=1)

    def read(self, row: int) -> bytes:
        """Image of a row.

        Raises:
            UserError: it has none.
        """
        image: bytes | None = self.cells(row)["image"]
        if not image:
            raise UserError(f"sample {self._ids[row]} has no image to train on")
        return image

    def cells(self, row: int) -> dict[str, Any]:
        """Values of a row by column."""
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        if number not in self._cache:
            group = self._read_group(number)
            while self._cache and self.cached_bytes + group.nbytes > CACHED_BYTES:
                self.cached_bytes -= self._cache.popitem(last=False)[1][1]
            self._cache[number] = group, group.nbytes
            self.cached_bytes += group.nbytes
        self._cache.move_to_end(number)
        table, place = self._cache[number][0], int(row - self._starts[number])
        return {name: table[name][place].as_py() for name in self._columns}

    def _read_group(self, number: int) -> pa.Table:
        place, group = self._groups[number]
        if place not in self._files:
            if len(self._files) >= _OPEN_FILES:
                self._files.popitem(last=False)[1].close()
            self._files[place] = pq.ParquetFile(self._paths[place])
        self._files.move_to_end(place)
        return self._files[place].read_row_group(group, columns=self._columns, use_threads=False)


class StoredRows(Sequence[T]):
    """Examples stored as the rows of a table."""

    images: StoredImages
    rows: np.ndarray
    """Row of each example in the table of images."""

    @property
    def digest(self) -> str:
        """Digest of the training data."""
        raise NotImplementedError

    @property
    def prompts(self) -> list[str]:
        """The different prompts; none where an example has several turns."""
        return []

    def example(self, index: int) -> T:
        """Read one example."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self.example(number) for number in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.example(index)


class StoredExamples(StoredRows[Example]):
    """Prompts and targets in memory, with images that stay in their table.

    Texts are Arrow columns, which processes that are forked from this one share.
    """

    def __init__(self, images: StoredImages, rows: Iterable[tuple[str, str, str]]) -> None:
        """
        Args:
            rows: sample id, prompt and target.
        """
        self.images = images
        fields = pa.schema([(name, pa.large_string()) for name in ("sample_id", "prompt", "caption")])
        source, batches = iter(rows), []
        while batch := list(islice(source, _TEXTS)):
            columns = [pa.array(column, pa.large_string()) for column in zip(*batch, strict=True)]
            batches.append(pa.record_batch(columns, schema=fields))
        self._texts = pa.Table.from_batches(batches, fields).combine_chunks()
        self.rows = images.rows(self._texts["sample_id"].cast(pa.string()))

    @property
    def digest(self) -> str:
        """Digest of the texts and of the table that the images are from."""
        digest = hashlib.sha256(read_manifest(self.images.samples).digest.encode())
        for batch in self._texts.to_batches(max_chunksize=_TEXTS):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                digest.update("\0".join(row).encode() + b"\1")
        return digest.hexdigest()

    @property
    def prompts(self) -> list[str]:
        """The different prompts."""
        return [str(prompt) for prompt in self._texts["prompt"].unique().to_pylist()]

    def example(self, index: int) -> Example:
        _, prompt, caption = (column[index].as_py() for column in self._texts.columns)
        return Example(self.images.read(int(self.rows[index])), prompt, caption)


class StoredConversations(StoredRows[Conversation]):
    """All rows of an `instructions` table."""

    def __init__(self, table: Path) -> None:
        self.images = StoredImages(table, ("images", "messages"))
        self.rows = np.arange(read_manifest(table).rows)

    @property
    def digest(self) -> str:
        return read_manifest(self.images.samples).digest

    def example(self, index: int) -> Conversation:
        cells = self.images.cells(index)
        return Conversation(cells["images"], json.loads(cells["messages"]))


def first_references(samples: Path, *splits: str) -> Iterator[tuple[str, str, str]]:
    """Yield rows for `StoredExamples`: the samples of the splits with their first reference."""
    for row in read_rows(samples, columns=["sample_id", "split", "prompt", "references"]):
        if row["split"] in splits and row["references"]:
            yield row["sample_id"], row["prompt"], row["references"][0]
