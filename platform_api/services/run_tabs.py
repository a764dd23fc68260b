"""Tabs of a run: its pages, of which each run has those that it has something for."""

from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.services.rollouts import stages_with_rollouts
from rubricworks.platform_api.services.rubrics.rubric_sets import KIND
from rubricworks.platform_api.services.runs import tables_of

_AUDIT = "audit"


class TabLink(NamedTuple):
    """One tab."""

    name: str
    """Tells it from the others: `overview`, or `rollouts/train_policy`."""
    title: str
    address: str


async def run_tabs(session: AsyncSession, run: Run) -> list[TabLink]:
    """Tabs of a run in their order, the result first."""
    place = f"/runs/{quote(run.name, safe='')}"
    trainings = await stages_with_rollouts(session, run.name)
    tables = await tables_of(session, run.name)
    sets = [table.path for table in tables if table.kind == KIND and "/" not in table.path]

    def of_stages(name: str, title: str, stages: list[str]) -> list[TabLink]:
        return [
            TabLink(f"{name}/{stage}", f"{title}: {stage}" if len(stages) > 1 else title, f"{place}/{name}/{stage}")
            for stage in stages
        ]

    tabs = [TabLink("overview", "Overview", place), TabLink("curves", "Curves", f"{place}?tab=curves")]
    tabs += of_stages("rollouts", "Rollouts", list(trainings))
    tabs += of_stages("criteria", "Criteria", list(trainings))
    tabs += of_stages("rubrics", "Rubrics", sets)
    if trainings or any(table.kind == _AUDIT for table in tables):
        tabs.append(TabLink("hacking", "Reward hacking", f"{place}/hacking"))
    tabs += [TabLink(name, name.capitalize(), f"{place}?tab={name}") for name in ("costs", "recipe", "artifacts")]
    if any(stage["stage"] == "report" and stage["done"] for stage in run.stages):
        tabs.append(TabLink("report", "Report", f"{place}/report"))
    return tabs
