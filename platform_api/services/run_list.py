"""Lists of runs: filtered, sorted by any column, by page; every view is a query that an address can hold."""

import re
from datetime import timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from rubricworks.platform_api.db.tables import Run, RunTag, utc_now
from rubricworks.platform_api.pagination import PageRequest, query_page, sorted_page
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.runs import RunBody

COLUMNS: dict[str, InstrumentedAttribute[Any]] = {
    "changed": Run.changed,
    "started": Run.started,
    "state": Run.state,
    "recipe": Run.recipe,
    "pipeline": Run.pipeline,
    "reward": Run.reward,
    "win_rate": Run.win_rate,
    "dollars": Run.dollars,
    "seconds": Run.seconds,
    "champion": Run.champion,
    "owner": Run.owner,
    "tags": Run.tags,
}
"""Columns that lists are sorted by."""
FIGURES = ("reward", "win_rate", "dollars", "seconds")
"""Columns that `where` compares with a number."""
_TERM = re.compile(rf"\s*({'|'.join(FIGURES)})\s*(<=|>=|<|>|=)\s*(-?\d{{1,15}}(?:\.\d{{1,15}})?)\s*")


class RunFilter(NamedTuple):
    """Runs that a list has; an empty value takes all."""

    state: str = ""
    recipe: str = ""
    search: str = ""
    """Part of a name."""
    owner: str = ""
    tag: str = ""
    champion: bool = False
    days: int | None = None
    """Runs that began within so many days."""
    where: str = ""
    """Conditions on figures, such as `reward >= 0.6, dollars < 2`."""


async def list_runs(
    session: AsyncSession, asked: PageRequest, wanted: RunFilter, sort: str = "changed", *, ascending: bool = False
) -> Page[RunBody]:
    """Runs in the order of a column, by default the last changed first; those without a value come last.

    Raises:
        BadRequest: `where` has no conditions that can be read.
    """
    query = _filtered(wanted)
    make = RunBody.model_validate
    if sort == "changed":
        return await query_page(session, query, (Run.changed, Run.name), asked, make, ascending=ascending)
    order = (COLUMNS[sort], Run.changed, Run.name)
    return await sorted_page(session, query, order, asked, make, ascending=ascending)


def _filtered(wanted: RunFilter) -> Select[Any]:
    query: Select[Any] = select(Run)
    for column in ("state", "recipe", "owner"):
        if value := getattr(wanted, column):
            query = query.where(COLUMNS[column] == value)
    if wanted.search:
        query = query.where(Run.name.contains(wanted.search, autoescape=True))
    if wanted.tag:
        query = query.where(Run.name.in_(select(RunTag.run).where(RunTag.tag == wanted.tag)))
    if wanted.champion:
        query = query.where(Run.champion.is_not(None))
    if wanted.days is not None:
        query = query.where(Run.started >= utc_now() - timedelta(days=wanted.days))
    return query.where(*_conditions(wanted.where))


def _conditions(text: str) -> list[ColumnElement[bool]]:
    conditions = []
    for term in re.split(r",|\band\b", text) if text.strip() else ():
        match = _TERM.fullmatch(term)
        if match is None:
            raise BadRequest(
                f"where: {term.strip()!r} is no condition; write one as reward >= 0.6, several with commas; "
                f"figures are {', '.join(FIGURES)}"
            )
        column, operator, number = COLUMNS[match[1]], match[2], float(match[3])
        match operator:
            case "<":
                conditions.append(column < number)
            case "<=":
                conditions.append(column <= number)
            case ">":
                conditions.append(column > number)
            case ">=":
                conditions.append(column >= number)
            case _:
                conditions.append(column == number)
    return conditions
