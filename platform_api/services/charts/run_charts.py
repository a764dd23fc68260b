"""Charts of a run's page: its stages in time, what is left of its plan, the reward of its trainings."""

from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.services import budgets, rollouts, runs
from rubricworks.platform_api.services.budgets import Spending
from rubricworks.reports.charts import Series, SeriesChart, curve, series_chart
from rubricworks.runs.store import RunStore


class Bar(NamedTuple):
    """A stage on the run's timeline, in percent of its time."""

    stage: str
    state: str
    left: float
    width: float
    seconds: float


def timeline(run: Run, spending: Spending) -> list[Bar]:
    """Stages one after the other, as the ledger has their times; those of which it has none have no width."""
    seconds = {one.stage: one.seconds for one in spending.stages}
    done = {one["stage"]: one["done"] for one in run.stages}
    known = {stage: done[stage] for stage in (*seconds, *done) if stage in done}
    total = sum(seconds.get(stage, 0.0) for stage in known) or 1.0
    bars, begin = [], 0.0
    for stage, is_done in known.items():
        took = seconds.get(stage, 0.0)
        ended = run.state if run.state in ("going", "stopped") else "not done"
        if run.state == "failed" and run.message.startswith(f"{stage}:"):
            ended = "failed"
        state = "done" if is_done else ended
        bars.append(Bar(stage, state, 100 * begin / total, 100 * took / total, took))
        begin += took
    return bars


def burn_chart(spending: Spending) -> SeriesChart | None:
    """What is left of the plan after each stage, as planned and as it went; None if nothing was planned or run."""
    burn = budgets.burn_down(spending)
    if burn is None:
        return None
    unit, planned, actual = burn
    values = [amount for _, amount in (*planned, *actual)]
    series = [Series("m1", "planned", planned), Series("m0", "left", actual)]
    return series_chart(f"{unit.capitalize()} left of the plan", series, bounds=(min(0.0, *values), max(values)))


async def reward_charts(session: AsyncSession, store: RunStore, run: str) -> list[tuple[str, SeriesChart | None]]:
    """Reward over the steps of each training."""
    charts = []
    for stage in await rollouts.stages_with_rollouts(session, run):
        points = [
            (float(row["step"]), float(row["reward"]))
            for row in await runs.read_steps(store, run, stage, 0)
            if isinstance(row.get("reward"), int | float)
        ]
        charts.append((stage, curve(f"Reward of {stage}", points)))
    return charts
