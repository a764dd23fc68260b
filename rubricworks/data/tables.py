"""Tables: Parquet shards and a manifest, written so that a killed run ends byte-identical when it is run again.

A shard holds the rows of `shard_size` items and is committed atomically: written to a temporary file, flushed, renamed.
The plan is written first and identifies the config and inputs, so that shards of another config are never mixed in;
the manifest is written last.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, field_validator

from rubricworks.data.manifest import Manifest, read_manifest
from rubricworks.data.source_entries import file_name
from rubricworks.errors import UserError
from rubricworks.rubrics import Rubric
from rubricworks.storage import local_path

T = TypeVar("T")
Row = dict[str, Any]
"""Row of a table: column → value, as its schema has it."""
Rows = list[Row]
Progress = Callable[[int, int], None]
"""Callback after every shard: number of items done, and how many of them an earlier run had committed."""

_READ_ROWS = 64
_PREPARED = 2
"""Shards whose items are prepared while one is made, so that neither side waits for the other's slow ones."""


class Sample(BaseModel):
    """One prompt with its image and references; a prompt to generate an image for has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    image: bytes | None = None
    """PNG or JPEG, upright RGB; None for a text-to-image prompt, and where only the text is needed. Empty bytes become
    None.
    """
    prompt: str = ""
    references: tuple[str, ...] = ()
    """Captions that came with the image."""
    split: str = "train"
    """train (captioned, graded, trained on) | held_out (captioned, evaluated) | warm_up (references only)."""
    source: str = ""
    question: str | None = None
    """Question without its prompt template; None where the prompt is not a question."""
    answer: str | None = None
    """Reference answer of the question, or None."""
    task: str | None = None
    """Kind of question (`count`, `document`, …); scores are averaged over tasks."""
    options: tuple[str, ...] | None = None
    """Options of a multiple-choice question in order: A, B, C, …"""

    @field_validator("image")
    @classmethod
    def _empty_is_none(cls, image: bytes | None) -> bytes | None:
        return image or None

    @property
    def label(self) -> str:
        """Name for messages: that of its file, if it has one, and its id."""
        name = file_name(self.source)
        return f"{name} ({self.sample_id})" if name else self.sample_id

    @property
    def images(self) -> tuple[bytes, ...]:
        """Images of the prompt, in order: one at most, but for a trainer's prompts (`adapters.rows.PromptSample`)."""
        return (self.image,) if self.image else ()

    def require_images(self, reason: str) -> tuple[bytes, ...]:
        """All images of the sample; arguments and errors are those of `require_image`."""
        self.require_image(reason)
        return self.images

    def require_image(self, reason: str) -> bytes:
        """Image of the sample.

        Args:
            reason: a clause that says why it is needed, for the message.
        Raises:
            UserError: the sample has no image.
        """
        if not self.image:
            raise UserError(f"sample {self.label}: {reason}, and the sample has no image")
        return self.image


async def build_table(
    uri: str | Path,
    table: str,
    items: Iterable[T],
    make_rows: Callable[[list[T]], Awaitable[Rows | Mapping[str, Rows]]],
    *,
    made_by: Mapping[str, object],
    shard_size: int,
    side_tables: Mapping[str, str | Path] | None = None,
    progress: Progress | None = None,
    prepare: Callable[[list[T]], Awaitable[list[Any]]] | None = None,
) -> Manifest:
    """Write a table, or finish an unfinished one; leave a complete table of the same provenance unchanged.

    Args:
        items: in the same order on every run; items of a committed shard are skipped without calling `make_rows`.
        make_rows: deterministic function from one shard's items to rows; with `side_tables`, to rows by table name.
        made_by: provenance: {"stage", "config" (digest), "inputs": {name: manifest digest}, "version"}.
        shard_size: items per shard; one shard is in memory at a time.
        side_tables: name to URI of tables written in the same pass (dead letters, rejected items); their shards are
            committed before the main table's.
        prepare: makes the items of a shard that `make_rows` gets, two shards ahead of it.
    Raises:
        UserError: the disk is full, or another run is writing the same folder.
    """
    from rubricworks.data.shards import TableFolder

    place = local_path(uri)
    side_places = {name: local_path(side_uri) for name, side_uri in (side_tables or {}).items()}
    shared = any(side_place.is_relative_to(place) for side_place in side_places.values())
    main = TableFolder(place, table, made_by, shard_size, shared=shared)
    side_folders = [TableFolder(side_place, name, made_by, shard_size) for name, side_place in side_places.items()]
    with main.locked():
        finished = main.finished()
        if finished and all(folder.finished() for folder in side_folders):
            return finished
        for folder in (main, *side_folders):
            folder.begin()
        processed = reused = shards = 0
        source = iter(items)
        ahead: deque[tuple[list[T], asyncio.Future[list[Any]] | None]] = deque()
        """Items of the next shards, and those that are prepared of them; none for a committed shard."""

        def read_ahead() -> None:
            while len(ahead) < (1 if prepare is None else 1 + _PREPARED):
                if not (chunk := list(itertools.islice(source, shard_size))):
                    return
                committed = all(folder.has_shard(shards + len(ahead)) for folder in (*side_folders, main))
                ahead.append((chunk, asyncio.ensure_future(prepare(chunk)) if prepare and not committed else None))

        try:
            while True:
                read_ahead()
                if not ahead:
                    break
                chunk, prepared = ahead.popleft()
                if all(folder.has_shard(shards) for folder in (*side_folders, main)):
                    reused += len(chunk)
                else:
                    result = await make_rows(await prepared if prepared else chunk)
                    rows = result if isinstance(result, Mapping) else {table: result}
                    if unknown := rows.keys() - {table, *side_places}:
                        raise ValueError(
                            f"make_rows gave rows for {sorted(unknown)}, which build_table was not asked for"
                        )
                    for folder in (*side_folders, main):
                        await asyncio.to_thread(folder.commit_shard, shards, rows.get(folder.table, []))
                shards += 1
                processed += len(chunk)
                if progress:
                    progress(processed, reused)
        finally:
            for _, prepared in ahead:
                if prepared:
                    prepared.cancel()
        manifests = [await asyncio.to_thread(folder.finish, shards) for folder in (*side_folders, main)]
        return manifests[-1]


def shard_paths(uri: str | Path) -> list[Path]:
    """Parquet files of a finished table in order, as `datasets.load_dataset("parquet", data_files=...)` takes them."""
    folder = local_path(uri)
    return [folder / shard.name for shard in read_manifest(uri).shards]


def count_rows(uri: str | Path) -> int:
    """Number of rows of a finished table, from its manifest."""
    return read_manifest(uri).rows


def read_rows(uri: str | Path, *, columns: list[str] | None = None) -> Iterator[Row]:
    """Iterate over the rows of a finished table in order, a few in memory at a time.

    Raises:
        UserError: the table is missing, unfinished or damaged.
        ValueError: there is no column of a requested name.
    """
    import pyarrow as pa

    for path in shard_paths(uri):
        try:
            yield from _shard_rows(path, columns)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{path}: cannot be read ({reason}); delete it and run the stage that made it again"
            ) from error


def read_shard(uri: str | Path, number: int) -> list[Row]:
    """Read all rows of one shard of a finished table, as `read_rows` gives them."""
    return list(_shard_rows(shard_paths(uri)[number], None))


def _shard_rows(path: Path, columns: list[str] | None) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as shard:
        if columns is not None and (unknown := set(columns).difference(shard.schema_arrow.names)):
            raise ValueError(f"{path.parent}: no column {sorted(unknown)[0]!r}")
        for batch in shard.iter_batches(batch_size=_READ_ROWS, columns=columns):
            yield from batch.to_pylist()


def read_samples(uri: str | Path, *splits: str) -> Iterator[Sample]:
    """Iterate over the samples of a table, optionally of the given splits only."""
    for row in read_rows(uri, columns=list(Sample.model_fields)):
        if not splits or row["split"] in splits:
            yield Sample.model_validate(row)


def count_samples(uri: str | Path, *splits: str) -> int:
    """Number of samples that `read_samples` yields, counted without reading images."""
    return sum(not splits or row["split"] in splits for row in read_rows(uri, columns=["split"]))


def read_rubrics(table: Path) -> dict[str, Rubric]:
    """Read a table of rubrics: sample_id → rubric."""
    rows = read_rows(table, columns=["sample_id", "rubric"])
    return {row["sample_id"]: Rubric.model_validate_json(row["rubric"]) for row in rows}
