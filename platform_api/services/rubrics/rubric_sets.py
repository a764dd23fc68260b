"""Rubric sets: the rubrics that a stage wrote, one per sample, with how their criteria did in the training.

A set is a table `rubrics` of a run. A rubric of it can be edited, see `rubric_versions`; the approved version then
stands for the sample.
"""

import asyncio
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import CriterionCredits, RubricVersion, RunTable, Shard
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.run_tables import find_row, iterate_rows, read_rows
from rubricworks.rubrics import Rubric
from rubricworks.runs.store import RunStore

KIND = "rubrics"
FIRST = 1
"""Number of the version that the stage wrote."""


class CriterionUse(NamedTuple):
    """One criterion over a set, and over the trainings of its run."""

    criterion: str
    rubrics: int
    """Rubrics that have it."""
    weight: float
    """Mean over those."""
    graded: int
    pass_rate: float | None
    """Mean credit; None if it was never graded."""
    variance: float | None
    state: Literal["always", "never", "varies", "not graded"]


class RubricEntry(NamedTuple):
    """One sample's rubric as the set lists it."""

    sample_id: str
    criteria: int
    weight: float
    version: int
    """Version that stands."""
    open: int
    """Versions that wait for a review."""


async def list_entries(
    session: AsyncSession, store: RunStore, table: RunTable, start: int, limit: int
) -> list[RubricEntry]:
    """Rubrics of a set in the order of its table."""
    rows = await read_rows(store, table, start, limit)
    standing, waiting = await _versions(session, table, [row["sample_id"] for row in rows])
    entries = []
    for row in rows:
        sample = row["sample_id"]
        number, edited = standing.get(sample, (FIRST, None))
        rubric = Rubric.model_validate(edited) if edited else Rubric.model_validate_json(row["rubric"])
        entries.append(RubricEntry(sample, len(rubric.criteria), sum(rubric.weights), number, waiting.get(sample, 0)))
    return entries


async def list_criteria(session: AsyncSession, store: RunStore, table: RunTable) -> list[CriterionUse]:
    """Criteria of a set: those that give no gradient first, then by the number of rubrics."""
    weights: defaultdict[str, list[float]] = defaultdict(list)
    for criterion in await asyncio.to_thread(_all_criteria, store, table):
        weights[criterion[0]].append(criterion[1])
    query = (
        select(
            CriterionCredits.criterion,
            func.sum(CriterionCredits.graded),
            func.sum(CriterionCredits.total),
            func.sum(CriterionCredits.squares),
            func.min(CriterionCredits.lowest),
            func.max(CriterionCredits.highest),
        )
        .join(Shard, Shard.id == CriterionCredits.shard_id)
        .where(Shard.run == table.run)
        .group_by(CriterionCredits.criterion)
    )
    figures = {name: tuple(values) for name, *values in await session.execute(query)}
    uses = [_use(name, of_rubrics, figures.get(name)) for name, of_rubrics in weights.items()]
    order = {"never": 0, "always": 0, "varies": 1, "not graded": 2}
    return sorted(uses, key=lambda one: (order[one.state], -one.rubrics, one.criterion))


async def stage_rubric(store: RunStore, table: RunTable, sample_id: str) -> tuple[Rubric, dict[str, Any]]:
    """The rubric that the stage wrote for a sample, with the other columns of its row.

    Raises:
        NotFound: the set has none for it.
    """
    row = await find_row(store, table, "sample_id", sample_id)
    if row is None:
        raise NotFound(f"{table.path} of {table.run} has no rubric of sample {sample_id!r}")
    return Rubric.model_validate_json(row["rubric"]), {name: row[name] for name in ("writer", "prompt_version")}


async def export(session: AsyncSession, store: RunStore, table: RunTable) -> bytes:
    """The set as one Parquet file, each sample with the version that stands; `rubricworks grade` reads it."""
    standing, _ = await _versions(session, table, None)
    return await asyncio.to_thread(_parquet, store, table, standing)


async def standing_rubrics(session: AsyncSession, store: RunStore, table: RunTable) -> dict[str, Rubric]:
    """Sample → the rubric that stands, in the order of the set."""
    standing, _ = await _versions(session, table, None)

    def read() -> dict[str, Rubric]:
        return {
            row["sample_id"]: Rubric.model_validate(edited[1])
            if (edited := standing.get(row["sample_id"]))
            else Rubric.model_validate_json(row["rubric"])
            for row in iterate_rows(store, table)
        }

    return await asyncio.to_thread(read)


def _use(name: str, weights: Sequence[float], figures: tuple[Any, ...] | None) -> CriterionUse:
    weight = math.fsum(weights) / len(weights)
    if figures is None:
        return CriterionUse(name, len(weights), weight, 0, None, None, "not graded")
    graded, total, squares, lowest, highest = figures
    mean = total / graded
    state: Literal["always", "never", "varies"] = "always" if lowest == 1 else "never" if highest == 0 else "varies"
    return CriterionUse(name, len(weights), weight, graded, mean, max(0.0, squares / graded - mean * mean), state)


def _all_criteria(store: RunStore, table: RunTable) -> list[tuple[str, float]]:
    return [
        (one.criterion, one.weight)
        for row in iterate_rows(store, table)
        for one in Rubric.model_validate_json(row["rubric"]).criteria
    ]


async def _versions(
    session: AsyncSession, table: RunTable, samples: Iterable[str] | None
) -> tuple[dict[str, tuple[int, dict[str, Any]]], dict[str, int]]:
    """Sample → its approved version and that rubric; sample → number of versions that wait."""
    query = (
        select(RubricVersion)
        .where(RubricVersion.run == table.run, RubricVersion.stage == table.path)
        .where(RubricVersion.state.in_(("approved", "proposed")))
        .order_by(RubricVersion.number)
    )
    if samples is not None:
        query = query.where(RubricVersion.sample_id.in_(list(samples)))
    standing: dict[str, tuple[int, dict[str, Any]]] = {}
    waiting: defaultdict[str, int] = defaultdict(int)
    for one in await session.scalars(query):
        if one.state == "approved":
            standing[one.sample_id] = (one.number, one.rubric)
        else:
            waiting[one.sample_id] += 1
    return standing, waiting


def _parquet(store: RunStore, table: RunTable, standing: dict[str, tuple[int, dict[str, Any]]]) -> bytes:
    import pyarrow.parquet as pq

    from rubricworks.data.schemas import table_from_rows

    rows = []
    for row in iterate_rows(store, table):
        _, edited = standing.get(row["sample_id"], (FIRST, None))
        text = Rubric.model_validate(edited).model_dump_json() if edited else row["rubric"]
        rows.append({**row, "rubric": text})
    buffer = io.BytesIO()
    pq.write_table(table_from_rows(KIND, rows), buffer)
    return buffer.getvalue()
