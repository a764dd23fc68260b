"""Budget of a run: what its calls cost, what was planned, what its caps leave, and the time of its stages."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError, UserError
from rubricworks.llm.spending import SPENDING_FILE, Budget, read_budget, read_spending
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.services.run_copies import run_folder
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.reports.costs import model_calls, stage_costs
from rubricworks.reports.run_folder import read_ledger
from rubricworks.runs.store import RunStore
from rubricworks.runtime.store.run_state import ERROR_FILE, STATE

if TYPE_CHECKING:
    from rubricworks.recipe.estimate import CallEstimate


class StageSpending(NamedTuple):
    """Calls of one stage, made and planned, and its time."""

    stage: str
    seconds: float
    calls: int
    cached: int
    tokens: int
    dollars: float
    planned_calls: int
    planned_tokens: int
    planned_dollars: float


class Spending(NamedTuple):
    """Spending of a run beside what was planned."""

    caps: Budget
    stages: list[StageSpending]

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.stages)

    @property
    def dollars(self) -> float:
        return sum(one.dollars for one in self.stages)

    @property
    def planned_tokens(self) -> int:
        return sum(one.planned_tokens for one in self.stages)

    @property
    def planned_dollars(self) -> float:
        return sum(one.planned_dollars for one in self.stages)


async def run_spending(session: AsyncSession, store: RunStore, run: Run) -> Spending:
    """Spending of a run, from the ledgers in its folder and the plan of its recipe."""
    tables = await list_tables(session, "samples", run=run.name)
    items = next((one.rows for one in tables if one.path.startswith("prepare")), None)
    unfinished = [one["stage"] for one in run.stages if not one["done"]] if run.state != "going" else []
    return await asyncio.to_thread(_read, store, run.name, items, unfinished)


def burn_down(spending: Spending) -> tuple[str, list[tuple[float, float]], list[tuple[float, float]]] | None:
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


def _read(store: RunStore, run: str, items: int | None, unfinished: Sequence[str]) -> Spending:
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
        seconds = {one.stage: one.seconds for one in stage_costs(read_ledger(folder), calls)}
    for name, lost in _seconds_of_failures(store, run, unfinished).items():
        seconds[name] = seconds.get(name, 0.0) + lost
    stages = []
    for name in dict.fromkeys([*seconds, *(one.stage for one in planned)]):
        mine = [one for one in calls if one.stage == name]
        plan = [one for one in planned if one.stage == name]
        stages.append(
            StageSpending(
                stage=name,
                seconds=seconds.get(name, 0.0),
                calls=sum(one.calls for one in mine),
                cached=sum(one.cached for one in mine),
                tokens=sum(one.prompt_tokens + one.completion_tokens for one in mine),
                dollars=sum(one.cost for one in mine),
                planned_calls=sum(one.count for one in plan),
                planned_tokens=sum(one.count * (one.tokens_in + one.tokens_out) for one in plan),
                planned_dollars=sum(one.dollars for one in plan),
            )
        )
    return Spending(caps, stages)


def _seconds_of_failures(store: RunStore, run: str, unfinished: Sequence[str]) -> dict[str, float]:
    """Time of the last attempt of each stage that failed: the ledger has finished ones alone."""
    found: dict[str, float] = {}
    for path in (ERROR_FILE, *(f"{STATE}/{stage}/{ERROR_FILE}" for stage in unfinished)) if unfinished else ():
        try:
            error = json.loads(store.read(run, path) or b"null")
        except ValueError:
            continue
        if isinstance(error, dict) and error.get("stage") in unfinished:
            seconds = error.get("seconds")
            found[error["stage"]] = float(seconds) if isinstance(seconds, int | float) else 0.0
    return found


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
