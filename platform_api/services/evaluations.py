"""Evaluations: rows of stored scores, and leaderboards, built by the code of `rubricworks leaderboard`."""

import asyncio
import csv
import io
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.spreadsheet_cells import guard_cell
from rubricworks.errors import TransientError, UserError
from rubricworks.evaluation.leaderboard import Leaderboard, leaderboard
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.pagination import PageRequest, encode_cursor
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.evaluations import BoardBody, EvaluationBody, ScoreBody
from rubricworks.platform_api.services.recent_values import remember
from rubricworks.platform_api.services.run_storage import CopiedTable, run_folder
from rubricworks.platform_api.services.runs import get_run, open_table, table_page
from rubricworks.reports.leaderboard import is_simulated_evaluation, read_source
from rubricworks.reports.run_folder import SAMPLE_STAGES
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import Row

STAGE = "score"
KIND = "scores"
MOST_RUNS = 12
_LATEST = 3
"""Runs of a board that names none."""
_RECENT = PageRequest(limit=30)
_SCORES = {STAGE: CopiedTable(KIND), f"{STAGE}/responses": CopiedTable("responses")}
_TASKS = CopiedTable("samples", ["sample_id", "task"])
"""Columns of samples that a board has from their own table, and not their images."""
_CSV_IN_MEMORY = 8 * 1024 * 1024
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


async def list_evaluations(session: AsyncSession, asked: PageRequest) -> Page[EvaluationBody]:
    """Tables of scores, the last written first."""
    return await table_page(session, KIND, asked, _evaluation)


async def list_scores(store: RunStore, table: RunTable, wanted: ScoreFilter, asked: PageRequest) -> Page[ScoreBody]:
    """Rows of a table of scores; only the shards that may hold them are read, and so many at most."""
    return await asyncio.to_thread(_score_page, store, table, wanted, asked)


def scores_csv(store: RunStore, table: RunTable, wanted: ScoreFilter) -> IO[bytes]:
    """All rows as a CSV file, but for the evidence, which is the scorer's own; blocks.

    The file is whole before the answer begins, which could not say any more that a later shard is damaged.
    """
    columns = list(ScoreBody.model_fields)
    lines: IO[bytes] = tempfile.SpooledTemporaryFile(_CSV_IN_MEMORY)  # noqa: SIM115  # the answer closes it
    lines.write(_csv_lines([columns]))
    for file in open_table(store, table).files():
        rows = (row for row in file.rows() if wanted.takes(row))
        lines.write(_csv_lines([[guard_cell(row.get(name)) for name in columns] for row in rows]))
    lines.seek(0)
    return lines


async def board_of(
    session: AsyncSession, store: RunStore, runs: Sequence[str], against: str | None, *, every_figure: bool
) -> BoardBody:
    """Leaderboard of some runs, by default the last evaluated ones.

    Raises:
        NotFound: there is no such run, or it has no scores.
        BadRequest: too many runs, or no model is called `against`.
    """
    names = (
        list(dict.fromkeys(runs))
        or [
            evaluation.run
            for evaluation in (await list_evaluations(session, _RECENT)).items
            if evaluation.stage == STAGE
        ][:_LATEST]
    )
    if not names:
        return BoardBody(runs=[], simulated=False, board=None)
    if len(names) > MOST_RUNS:
        raise BadRequest(f"run: a board has at most {MOST_RUNS} runs")
    tables = [await _scores_of(session, run) for run in names]
    place = (store.uri, *((table.run, table.modified) for table in tables), against, every_figure)
    try:
        board, is_simulated = await remember(_build, place, store, names, against, every_figure)
    except TransientError:
        raise
    except (ValueError, UserError) as error:
        raise BadRequest(f"against: {error}" if "is called" in str(error) else str(error)) from error
    return BoardBody(runs=list(runs) or names, simulated=is_simulated, board=board)


def _evaluation(table: RunTable) -> EvaluationBody:
    return EvaluationBody(run=table.run, stage=table.path, scores=table.rows, modified=table.modified)


def _score_page(store: RunStore, table: RunTable, wanted: ScoreFilter, asked: PageRequest) -> Page[ScoreBody]:
    rows: list[ScoreBody] = []
    stored, first = open_table(store, table), 0
    for shard, file in zip(stored.shards, stored.files(), strict=True):
        last = first + shard.rows
        if last > asked.start:
            if first >= asked.start + _MOST_READ:
                return Page(items=rows, next_cursor=encode_cursor(first))
            for number, row in enumerate(file.rows(), start=first):
                if number < asked.start or not wanted.takes(row):
                    continue
                if len(rows) == asked.limit:
                    return Page(items=rows, next_cursor=encode_cursor(number))
                rows.append(ScoreBody.model_validate(row))
        first = last
    return Page(items=rows, next_cursor=None)


def _csv_lines(lines: Sequence[Sequence[object]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(lines)
    return out.getvalue().encode("utf-8", "replace")


async def _scores_of(session: AsyncSession, run: str) -> RunTable:
    table = await session.get(RunTable, (run, STAGE))
    if table is None or table.kind != KIND:
        await get_run(session, run)  # is it the run that is unknown?
        raise NotFound(f"{run} has no scores yet")
    return table


def _build(store: RunStore, runs: Sequence[str], against: str | None, every_figure: bool) -> tuple[Leaderboard, bool]:
    """Leaderboard, and True if the scene world replaced images and judges in any of the runs."""
    needed = _SCORES | {stage: _TASKS for stage in SAMPLE_STAGES}
    with ExitStack() as stack:
        folders = [stack.enter_context(run_folder(store, run, needed)) for run in runs]
        board = leaderboard(
            [read_source(folder, confined=True) for folder in folders], against=against, every_figure=every_figure
        )
        return board, any(is_simulated_evaluation(folder) for folder in folders)
