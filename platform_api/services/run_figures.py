"""Figures of a run: planned and actual cost, times of its stages, rewards of its trainings.

While the storage does not answer, a run has those figures that the database knows.
"""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.ledger import read_ledger
from rubricworks.errors import TransientError, UserError
from rubricworks.llm.spending import SPENDING_FILE, Budget, read_budget, read_spending
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.schemas.runs import SpendingBody, StageSpendingBody
from rubricworks.platform_api.services.rollouts import stages_with_rollouts
from rubricworks.platform_api.services.run_storage import run_folder
from rubricworks.platform_api.services.runs import (
    WrittenPages,
    list_tables,
    outside_links,
    read_steps,
    submission_links,
    written_pages,
)
from rubricworks.redaction import redact
from rubricworks.reports.charts import Series, SeriesChart, curve, series_chart
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.runs.store import RunStore
from rubricworks.runtime.store.run_state import ERROR_FILE, STATE
from rubricworks.storage.confined_files import UnreadableFile
from rubricworks.storage.plain_json import plain_object

if TYPE_CHECKING:
    from rubricworks.recipe.recipe import CallEstimate

_log = logging.getLogger(__name__)


class RunFigures(NamedTuple):
    """Figures of one run."""

    spending: SpendingBody
    charts: list[tuple[str, SeriesChart | None]]
    """Each training with its reward over the steps; None if it is not known."""
    pages: WrittenPages
    links: dict[str, str]
    is_away: bool = False
    """True if the storage does not respond, so that trainings and links come from the database."""


class Bar(NamedTuple):
    """A stage on the run's timeline, in percent of its time."""

    stage: str
    state: str
    left: float
    width: float
    seconds: float


async def run_figures(session: AsyncSession, store: RunStore | None, run: Run) -> RunFigures:
    """Figures of a run.

    Args:
        store: the storage of runs; None if it was never open.
    """
    trainings = await stages_with_rollouts(session, run.name)
    try:
        if store is not None:
            return RunFigures(
                spending=await run_spending(session, store, run),
                charts=[(stage, await _reward_chart(store, run.name, stage)) for stage in trainings],
                pages=await written_pages(store, run.name),
                links=await outside_links(session, store, run.name),
            )
    except TransientError as error:
        _log.warning("%s", redact(str(error)))
    links = await submission_links(session, run.name)
    charts: list[tuple[str, SeriesChart | None]] = [(stage, None) for stage in trainings]
    return RunFigures(total_spending(Budget(), []), charts, WrittenPages(report=False, audits=[]), links, is_away=True)


async def run_spending(session: AsyncSession, store: RunStore, run: Run) -> SpendingBody:
    """Spending of a run, from the ledgers in its folder and the plan of its recipe."""
    tables = await list_tables(session, "samples", run=run.name)
    items = next((table.rows for table in tables if table.path.startswith("prepare")), None)
    unfinished = [stage["stage"] for stage in run.stages if not stage["done"]] if run.state != "going" else []
    return await asyncio.to_thread(_read, store, run.name, items, unfinished)


def timeline(run: Run, spending: SpendingBody) -> list[Bar]:
    """Stages in sequence with their times from the ledger; stages without a time have no width."""
    seconds = {stage.stage: stage.seconds for stage in spending.stages}
    done = {stage["stage"]: stage["done"] for stage in run.stages}
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


def burn_down(spending: SpendingBody) -> tuple[str, list[tuple[float, float]], list[tuple[float, float]]] | None:
    """Rest of the plan after each stage, as planned and as it went: unit, then (seconds, amount) of both.

    In dollars, or in tokens where no call has a price; None if nothing was planned, or no stage has run.
    """
    unit = "dollars" if spending.planned_dollars or spending.dollars else "tokens"
    total: float = getattr(spending.caps, unit) or getattr(spending, f"planned_{unit}")
    if not total:
        return None
    planned, actual, seconds = [(0.0, float(total))], [(0.0, float(total))], 0.0
    for stage in spending.stages:
        if not stage.seconds and not stage.calls:
            continue
        seconds += stage.seconds
        planned.append((seconds, planned[-1][1] - getattr(stage, f"planned_{unit}")))
        actual.append((seconds, actual[-1][1] - getattr(stage, unit)))
    return (unit, planned, actual) if len(planned) > 1 else None


def burn_chart(spending: SpendingBody) -> SeriesChart | None:
    """Rest of the plan after each stage, planned and actual; None if nothing was planned or run."""
    burn = burn_down(spending)
    if burn is None:
        return None
    unit, planned, actual = burn
    values = [amount for _, amount in (*planned, *actual)]
    series = [Series("m1", "planned", planned), Series("m0", "left", actual)]
    return series_chart(f"{unit.capitalize()} left of the plan", series, bounds=(min(0.0, *values), max(values)))


async def _reward_chart(store: RunStore, run: str, stage: str) -> SeriesChart | None:
    points = [
        (float(row["step"]), float(row["reward"]))
        for row in await read_steps(store, run, stage, 0)
        if isinstance(row.get("reward"), int | float)
    ]
    return curve(f"Reward of {stage}", points)


def total_spending(caps: Budget, stages: list[StageSpendingBody]) -> SpendingBody:
    """Spending of a run from that of its stages."""
    return SpendingBody(
        caps=caps,
        tokens=sum(stage.tokens for stage in stages),
        dollars=sum(stage.dollars for stage in stages),
        planned_tokens=sum(stage.planned_tokens for stage in stages),
        planned_dollars=sum(stage.planned_dollars for stage in stages),
        stages=stages,
    )


def _read(store: RunStore, run: str, items: int | None, unfinished: Sequence[str]) -> SpendingBody:
    with run_folder(store, run) as folder:
        try:
            caps = read_budget(folder)
            spent = read_spending(folder / SPENDING_FILE)
        except TransientError:
            raise
        except UserError:  # half copied, or damaged
            caps, spent = Budget(), []
        planned = _plan(folder / "recipe.yaml", items)
        calls = model_calls(spent)
        seconds = {cost.stage: cost.seconds for cost in stage_costs(read_ledger(folder), calls)}
    for name, lost in _seconds_of_failures(store, run, unfinished).items():
        seconds[name] = seconds.get(name, 0.0) + lost
    stages = []
    for name in dict.fromkeys([*seconds, *(estimate.stage for estimate in planned)]):
        made = [call for call in calls if call.stage == name]
        plan = [estimate for estimate in planned if estimate.stage == name]
        stages.append(
            StageSpendingBody(
                stage=name,
                seconds=seconds.get(name, 0.0),
                calls=sum(call.calls for call in made),
                cached=sum(call.cached for call in made),
                tokens=sum(call.prompt_tokens + call.completion_tokens for call in made),
                dollars=sum(call.cost for call in made),
                planned_calls=sum(estimate.count for estimate in plan),
                planned_tokens=sum(estimate.count * (estimate.tokens_in + estimate.tokens_out) for estimate in plan),
                planned_dollars=sum(estimate.dollars for estimate in plan),
            )
        )
    return total_spending(caps, stages)


def _seconds_of_failures(store: RunStore, run: str, unfinished: Sequence[str]) -> dict[str, float]:
    """Time of the last attempt of each failed stage; the ledger only has finished stages."""
    lost: dict[str, float] = {}
    for path in (ERROR_FILE, *(f"{STATE}/{stage}/{ERROR_FILE}" for stage in unfinished)) if unfinished else ():
        try:
            error = plain_object(store.read(run, path) or b"{}")
        except (ValueError, UnreadableFile):
            continue
        if error.get("stage") in unfinished:
            seconds = error.get("seconds")
            lost[error["stage"]] = float(seconds) if isinstance(seconds, int | float) else 0.0
    return lost


def _plan(recipe_file: Path, items: int | None) -> "Sequence[CallEstimate]":
    # The configurations of all stages take a while to import.
    from rubricworks.recipe.estimate import estimate_calls
    from rubricworks.recipe.files import load_recipe

    try:
        recipe = load_recipe(recipe_file)
        count = recipe.items_in_world() if recipe.world is not None else items
        return estimate_calls(recipe, count) if count else []
    except TransientError:
        raise
    except (UserError, OSError):  # no plan is known before the run, or this version does not read the recipe any more
        return []
