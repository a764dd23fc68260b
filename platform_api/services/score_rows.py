"""Rows of stored scores: which scorer gave which model's response to which sample what, a few shards at a time."""

import asyncio
import csv
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rubricworks.data.spreadsheet_cells import guard_cell
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.services.run_tables import Row, rows_of_shard
from rubricworks.runs.store import RunStore

COLUMNS = (
    *("sample_id", "model", "revision", "step", "decoding", "against"),
    *("scorer", "version", "judge", "part", "value", "reason"),
)
"""Columns of `scores` but for the evidence, which is the scorer's own."""
_MOST_READ = 20_000
"""Rows that one page looks at: with rare filters a page may be short, and its cursor leads on."""


class ScoreFilter(NamedTuple):
    """Values that rows have; None takes all."""

    sample_id: str | None = None
    model: str | None = None
    scorer: str | None = None

    def takes(self, row: Row) -> bool:
        """Return True if a row has these values."""
        return all(value is None or row[name] == value for name, value in zip(self._fields, self, strict=True))


class ScorePage(NamedTuple):
    """Some rows, and the number of the row with which the next page begins; None after the last one."""

    rows: list[Row]
    next_start: int | None


async def list_scores(store: RunStore, table: RunTable, wanted: ScoreFilter, start: int, limit: int) -> ScorePage:
    """Rows of a table of scores from a place on; only the shards that may hold them are read, and so many at most."""
    return await asyncio.to_thread(_page, store, table, wanted, start, limit)


def scores_csv(store: RunStore, table: RunTable, wanted: ScoreFilter) -> Iterator[bytes]:
    """All rows as CSV, shard by shard; blocks."""
    yield _csv_lines([COLUMNS])
    for shard in table.shards:
        rows = rows_of_shard(store, table, shard)
        yield _csv_lines([[guard_cell(row.get(name)) for name in COLUMNS] for row in rows if wanted.takes(row)])


def _page(store: RunStore, table: RunTable, wanted: ScoreFilter, start: int, limit: int) -> ScorePage:
    rows: list[Row] = []
    first = 0
    for shard in table.shards:
        last = first + shard["rows"]
        if last > start:
            if first >= start + _MOST_READ:
                return ScorePage(rows, first)
            for number, row in enumerate(rows_of_shard(store, table, shard), start=first):
                if number < start or not wanted.takes(row):
                    continue
                if len(rows) == limit:
                    return ScorePage(rows, number)
                rows.append(row)
        first = last
    return ScorePage(rows, None)


def _csv_lines(lines: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(lines)
    return out.getvalue().encode("utf-8", "replace")
