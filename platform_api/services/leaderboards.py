"""Leaderboards of runs' stored scores: models against scorers, built by the code of `rubricworks leaderboard`."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.evaluation.leaderboard import Leaderboard, leaderboard
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.services.recent_values import RecentValues
from rubricworks.platform_api.services.run_copies import run_folder
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.platform_api.services.runs import get_run
from rubricworks.reports.leaderboard import is_simulated_evaluation, read_source
from rubricworks.reports.run_folder import SAMPLE_STAGES
from rubricworks.runs.store import RunStore

STAGE = "score"
KIND = "scores"
MOST_RUNS = 12
_SCORES: dict[str, list[str] | None] = {STAGE: None, f"{STAGE}/responses": None}
_TASKS = ["sample_id", "task"]
"""Columns of samples that a board has from their own table, and not their images."""
_boards = RecentValues[tuple[Leaderboard, bool]](16)


async def list_evaluations(
    session: AsyncSession, *, before: tuple[Any, str, str] | None = None, limit: int
) -> Sequence[RunTable]:
    """Tables of scores, the last written first."""
    return await list_tables(session, KIND, before=before, limit=limit)


async def build(
    session: AsyncSession,
    store: RunStore,
    runs: Sequence[str],
    *,
    against: str | None = None,
    every_figure: bool = False,
) -> tuple[Leaderboard, bool]:
    """The board of some runs, and whether the scene world stood in for images and judges in any of them.

    Raises:
        NotFound: there is no such run, or it has no scores.
        BadRequest: too many runs, or no model is called `against`.
    """
    names = list(dict.fromkeys(runs))
    if len(names) > MOST_RUNS:
        raise BadRequest(f"run: a board has at most {MOST_RUNS} runs")
    tables = [await _table(session, run) for run in names]
    key = (*((store.uri, one.run, one.modified) for one in tables), against, every_figure)
    try:
        return await _boards.get(key, _build, store, names, against, every_figure)
    except TransientError:
        raise
    except (ValueError, UserError) as error:
        raise BadRequest(f"against: {error}" if "is called" in str(error) else str(error)) from error


async def _table(session: AsyncSession, run: str) -> RunTable:
    table = await session.get(RunTable, (run, STAGE))
    if table is None or table.kind != KIND:
        await get_run(session, run)  # is it the run that is unknown?
        raise NotFound(f"{run} has no scores yet")
    return table


def _build(store: RunStore, runs: Sequence[str], against: str | None, every_figure: bool) -> tuple[Leaderboard, bool]:
    needed = _SCORES | {stage: _TASKS for stage in SAMPLE_STAGES}
    with ExitStack() as stack:
        folders = [stack.enter_context(run_folder(store, run, needed)) for run in runs]
        board = leaderboard([read_source(folder) for folder in folders], against=against, every_figure=every_figure)
        return board, any(is_simulated_evaluation(folder) for folder in folders)
