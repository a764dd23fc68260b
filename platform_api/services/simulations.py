"""Runs in which the scene world stood in for images and models, as their recipes say."""

import json
from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.errors import TransientError
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.services.recent_values import RecentValues
from rubricworks.reports.run_folder import SOURCE
from rubricworks.runs.store import RunStore
from rubricworks.strict_yaml import parse_yaml

_known = RecentValues[bool](1024)


async def is_simulated(store: RunStore | None, run: Run) -> bool:
    """Return True if the scene world stood in for the run's images or models; False too while no storage answers."""
    if store is None:
        return False
    try:
        return await _known.get((store.uri, run.name, run.changed), _reads_simulated, store, run.name)
    except TransientError:
        return False


async def simulated_runs(session: AsyncSession, store: RunStore | None, names: Iterable[str]) -> dict[str, bool]:
    """Run → True if it is simulated, of those names that are runs here."""
    found = await session.scalars(select(Run).where(Run.name.in_(sorted(set(names)))))
    return {run.name: await is_simulated(store, run) for run in found}


def _reads_simulated(store: RunStore, run: str) -> bool:
    try:
        if (source := store.read(run, SOURCE)) is not None:
            return bool(json.loads(source)["simulated"])
        recipe = parse_yaml((store.read(run, "recipe.yaml") or b"").decode()).value
    except (ValueError, KeyError, TypeError, RecursionError):  # damaged: a report of the run says so
        return False
    return isinstance(recipe, dict) and bool(recipe.get("world"))
