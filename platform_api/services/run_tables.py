"""Finished tables of runs: found by the index, read a few shards at a time."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.run_index import read_table
from rubricworks.runs.store import RunStore

Row = dict[str, Any]
_CACHED_ROWS = 4096
"""Largest shard that is remembered: pages of one table ask for the same shards."""


async def list_tables(
    session: AsyncSession,
    kind: str,
    *,
    run: str | None = None,
    before: tuple[datetime, str, str] | None = None,
    limit: int | None = None,
) -> Sequence[RunTable]:
    """Tables of one schema, the last written first."""
    place = tuple_(RunTable.modified, RunTable.run, RunTable.path)
    query = select(RunTable).where(RunTable.kind == kind)
    query = query.order_by(RunTable.modified.desc(), RunTable.run.desc(), RunTable.path.desc()).limit(limit)
    if run is not None:
        query = query.where(RunTable.run == run)
    if before is not None:
        query = query.where(place < before)
    return (await session.scalars(query)).all()


async def get_table(session: AsyncSession, run: str, path: str, kind: str) -> RunTable:
    """A table of a run.

    Raises:
        NotFound: the run has no finished table there, or it is of another schema.
    """
    table = await session.get(RunTable, (run, path))
    if table is None or table.kind != kind:
        raise NotFound(f"{path} of {run} has no finished table of {kind.replace('_', ' ')}")
    return table


async def read_rows(store: RunStore, table: RunTable, start: int = 0, limit: int | None = None) -> list[Row]:
    """Rows of a table from a place on; only the shards that hold them are read."""
    return await asyncio.to_thread(_rows_from, store, table, start, limit)


async def find_row(store: RunStore, table: RunTable, column: str, value: str) -> Row | None:
    """First row with a value in a column."""

    def find() -> Row | None:
        return next((row for row in iterate_rows(store, table) if row[column] == value), None)

    return await asyncio.to_thread(find)


def iterate_rows(store: RunStore, table: RunTable) -> Iterator[Row]:
    """All rows of a table, shard by shard; blocks."""
    for shard in table.shards:
        yield from rows_of_shard(store, table, shard)


def _rows_from(store: RunStore, table: RunTable, start: int, limit: int | None) -> list[Row]:
    rows: list[Row] = []
    first = 0
    for shard in table.shards:
        last = first + shard["rows"]
        if last > start:
            rows += rows_of_shard(store, table, shard)[max(0, start - first) :]
        if limit is not None and len(rows) >= limit:
            return rows[:limit]
        first = last
    return rows


def rows_of_shard(store: RunStore, table: RunTable, shard: dict[str, Any]) -> Sequence[Row]:
    """Rows of one shard of a table; blocks."""
    path = f"{table.path}/{shard['name']}"
    if shard["rows"] > _CACHED_ROWS:
        return _read_shard(store, table.run, path)
    place: tuple[Any, ...] = (store, table.run, path, shard["sha256"])
    return _cached_shard(*place)


@lru_cache(maxsize=64)
def _cached_shard(store: RunStore, run: str, path: str, digest: str) -> Sequence[Row]:
    return _read_shard(store, run, path)


def _read_shard(store: RunStore, run: str, path: str) -> Sequence[Row]:
    columns = read_table(store, run, path)
    if columns is None:
        raise NotFound(f"{path} of {run} is being replaced; ask again in a moment")
    return tuple(dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
