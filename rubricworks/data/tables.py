"""Tables: Parquet shards and a manifest, made so that a run killed anywhere ends byte-identical when run again.

A shard holds the rows of `shard_size` items and is committed whole: written aside, flushed, renamed. The manifest comes
last. `plan.json` stands first and says what the shards are made from: those of another config are never mixed in.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from rubricworks.data.manifest import Manifest, read_manifest
from rubricworks.errors import UserError
from rubricworks.rubrics import Rubric
from rubricworks.storage import local_path

T = TypeVar("T")
Rows = list[dict[str, Any]]
Progress = Callable[[int, int], None]
"""Called after every shard: items done so far, and how many of them an earlier run had already committed."""

_READ_ROWS = 64


class Sample(BaseModel):
    """One image and what is asked about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    image: bytes = b""
    """PNG or JPEG, upright RGB. Judges of text need none."""
    prompt: str = ""
    references: tuple[str, ...] = ()
    """Captions that came with the image."""
    split: str = "train"
    """train (captioned, graded, trained on) | held_out (captioned, evaluated) | warm_up (references only)."""
    source: str = ""
    question: str | None = None
    """What is asked, without the template around it; None where the prompt is all there is."""
    answer: str | None = None
    """The reference answer, where the question has one."""
    task: str | None = None
    """The kind of question: `count`, `document`, …; figures are averaged over tasks."""
    options: tuple[str, ...] | None = None
    """Of a multiple-choice question, in order: A, B, C, …"""


async def build_table(
    uri: str | Path,
    table: str,
    items: Iterable[T],
    make_rows: Callable[[list[T]], Awaitable[Rows | Mapping[str, Rows]]],
    *,
    made_by: Mapping[str, Any],
    shard_size: int,
    also: Mapping[str, str | Path] | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Make a table, or finish one that was begun; a table that is there and was made by the same is left alone.

    Args:
        items: in the same order every time; a committed shard's items are read past without calling `make_rows`.
        make_rows: the rows of one shard's items, the same whenever it is asked. With `also`, rows by table name.
        made_by: {"stage", "config" (digest), "inputs": {name: manifest digest}, "version"}.
        shard_size: items per shard; one shard is in memory at a time.
        also: tables made in the same pass (dead letters, rejected items): name to URI. Their shards are committed
            before the main one.
    Raises:
        UserError: the disk is full, or another run is writing the same folder.
    """
    from rubricworks.data.shards import TableFolder

    main = TableFolder(local_path(uri), table, made_by, shard_size)
    beside = [TableFolder(local_path(place), name, made_by, shard_size) for name, place in (also or {}).items()]
    with main.locked():
        finished = main.finished()
        if finished and all(folder.finished() for folder in beside):
            return finished
        for folder in (main, *beside):
            folder.begin()
        done = already = shards = 0
        source = iter(items)
        while chunk := list(itertools.islice(source, shard_size)):
            if all(folder.has_shard(shards) for folder in (*beside, main)):
                already += len(chunk)
            else:
                made = await make_rows(chunk)
                rows = made if isinstance(made, Mapping) else {table: made}
                if unknown := rows.keys() - {table, *(also or {})}:
                    raise ValueError(f"make_rows gave rows for {sorted(unknown)}, which build_table was not asked for")
                for folder in (*beside, main):
                    await asyncio.to_thread(folder.commit_shard, shards, rows.get(folder.table, []))
            shards += 1
            done += len(chunk)
            if progress:
                progress(done, already)
        manifests = [await asyncio.to_thread(folder.finish, shards) for folder in (*beside, main)]
        return manifests[-1]


def shard_paths(uri: str | Path) -> list[Path]:
    """The Parquet files of a finished table, in order; also for `datasets.load_dataset("parquet", data_files=...)`."""
    folder = local_path(uri)
    return [folder / shard.name for shard in read_manifest(uri).shards]


def count_rows(uri: str | Path) -> int:
    """Rows of a finished table, read from its manifest."""
    return read_manifest(uri).rows


def read_rows(uri: str | Path, *, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a finished table, in order, a few in memory at a time.

    Raises:
        UserError: the table is missing, unfinished or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in shard_paths(uri):
        try:
            with pq.ParquetFile(path) as shard:
                if columns is not None and (unknown := set(columns) - set(shard.schema_arrow.names)):
                    raise ValueError(f"{path.parent}: no column {sorted(unknown)[0]!r}")
                for batch in shard.iter_batches(batch_size=_READ_ROWS, columns=columns):
                    yield from batch.to_pylist()
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{path}: cannot be read ({reason}); delete it and run the stage that made it again"
            ) from error


def read_shard(uri: str | Path, number: int) -> list[dict[str, Any]]:
    """All rows of one shard of a finished table."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(shard_paths(uri)[number]) as shard:
        rows: list[dict[str, Any]] = shard.read().to_pylist()
        return rows


def read_samples(uri: str | Path, *splits: str) -> Iterator[Sample]:
    """The samples of a table: of the splits that are named, or of all."""
    for row in read_rows(uri, columns=list(Sample.model_fields)):
        if not splits or row["split"] in splits:
            yield Sample.model_validate(row)


def count_samples(uri: str | Path, *splits: str) -> int:
    """How many samples `read_samples` would give; reads no image."""
    return sum(not splits or row["split"] in splits for row in read_rows(uri, columns=["split"]))


def read_rubrics(table: Path) -> dict[str, Rubric]:
    """sample_id → rubric."""
    rows = read_rows(table, columns=["sample_id", "rubric"])
    return {row["sample_id"]: Rubric.model_validate_json(row["rubric"]) for row in rows}
