"""Figures of a run's page that are in the run's files; without them while the storage does not answer."""

import logging
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError
from rubricworks.llm.spending import Budget
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.services import budgets, rollouts, runs
from rubricworks.platform_api.services.budgets import Spending
from rubricworks.platform_api.services.charts import run_charts
from rubricworks.platform_api.services.runs import WrittenPages
from rubricworks.redaction import redact
from rubricworks.reports.charts import SeriesChart
from rubricworks.runs.store import RunStore

_log = logging.getLogger(__name__)


class RunFigures(NamedTuple):
    """Figures of one run."""

    spending: Spending
    charts: list[tuple[str, SeriesChart | None]]
    """Each training with its reward over the steps; None if it is not known."""
    pages: WrittenPages
    links: dict[str, str]
    is_away: bool = False
    """The storage does not answer, so that trainings and links are those that the database knows."""


async def run_figures(session: AsyncSession, store: RunStore | None, run: Run) -> RunFigures:
    """Figures of a run.

    Args:
        store: the storage of runs; None if it was never open.
    """
    try:
        if store is not None:
            return RunFigures(
                spending=await budgets.run_spending(session, store, run),
                charts=await run_charts.reward_charts(session, store, run.name),
                pages=await runs.written_pages(store, run.name),
                links=await runs.outside_links(session, store, run.name),
            )
    except TransientError as error:
        _log.warning("%s", redact(str(error)))
    trainings = await rollouts.stages_with_rollouts(session, run.name)
    links = await runs.submission_links(session, run.name)
    charts: list[tuple[str, SeriesChart | None]] = [(stage, None) for stage in trainings]
    return RunFigures(Spending(Budget(), []), charts, WrittenPages(report=False, audits=[]), links, is_away=True)
