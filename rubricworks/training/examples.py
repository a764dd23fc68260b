"""Examples of supervised training: in memory, or read from a table of samples when a batch needs them."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

from rubricworks.data.manifest import read_manifest
from rubricworks.data.tables import read_rows, shard_paths
from rubricworks.errors import UserError

if TYPE_CHECKING:
    from rubricworks.training.processing import Messages

_CACHED_BYTES = 256 * 2**20
"""Images of row groups that stay in memory: all of a small table, a few groups of a large one."""


class Example(NamedTuple):
    """One prompt, with its image if there is one, and the target text."""

    image: bytes | None
    prompt: "str | Messages"
    caption: str


class StoredImages:
    """Images of a `samples` table by sample id, read a row group at a time."""

    def __init__(self, samples: Path) -> None:
        import pyarrow.parquet as pq

        self.samples = samples
        self._files = [pq.ParquetFile(path) for path in shard_paths(samples)]
        self._places: dict[str, tuple[int, int, int]] = {}
        """Sample → file, row group, row of the group."""
        for number, file in enumerate(self._files):
            for group in range(file.metadata.num_row_groups):
                ids = file.read_row_group(group, columns=["sample_id"])["sample_id"].to_pylist()
                self._places |= {sample_id: (number, group, row) for row, sample_id in enumerate(ids)}
        self._groups: OrderedDict[tuple[int, int], tuple[list[bytes | None], int]] = OrderedDict()
        self._bytes = 0

    def __contains__(self, sample_id: str) -> bool:
        return sample_id in self._places

    def read(self, sample_id: str) -> bytes:
        """Image of a sample.

        Raises:
            UserError: the sample has none.
        """
        number, group, row = self._places[sample_id]
        key = (number, group)
        if key not in self._groups:
            images: list[bytes | None] = (
                self._files[number].read_row_group(group, columns=["image"])["image"].to_pylist()
            )
            size = sum(len(image or b"") for image in images)
            while self._groups and self._bytes + size > _CACHED_BYTES:
                self._bytes -= self._groups.popitem(last=False)[1][1]
            self._groups[key] = images, size
            self._bytes += size
        self._groups.move_to_end(key)
        image = self._groups[key][0][row]
        if not image:
            raise UserError(f"sample {sample_id} has no image to train on")
        return image


class StoredExamples(Sequence[Example]):
    """Prompts and targets in memory, with images that stay in their table."""

    def __init__(self, images: StoredImages, rows: Iterable[tuple[str, str, str]]) -> None:
        """
        Args:
            rows: sample id, prompt and target.
        """
        self._images, self._rows = images, list(rows)

    @property
    def digest(self) -> str:
        """Digest of the rows and of the table that the images are from."""
        digest = hashlib.sha256(read_manifest(self._images.samples).digest.encode())
        for row in self._rows:
            digest.update("\0".join(row).encode() + b"\1")
        return digest.hexdigest()

    @property
    def prompts(self) -> list[str]:
        return [prompt for _, prompt, _ in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        sample_id, prompt, caption = self._rows[index]
        return Example(self._images.read(sample_id), prompt, caption)


def first_references(samples: Path, *splits: str) -> list[tuple[str, str, str]]:
    """Rows for `StoredExamples`: the samples of the splits with their first reference."""
    columns = ["sample_id", "split", "prompt", "references"]
    return [
        (row["sample_id"], row["prompt"], row["references"][0])
        for row in read_rows(samples, columns=columns)
        if row["split"] in splits and row["references"]
    ]
