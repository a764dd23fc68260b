"""Rollouts of a training: groups by step, each response with its verdicts, and criteria over the whole training."""

import asyncio
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import CriterionCredits, Rollout, RubricCriteria, Shard
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services.run_index import names_digest
from rubricworks.platform_api.services.runs import check_name, get_run
from rubricworks.platform_api.services.stored_parquet import rows_with
from rubricworks.redaction import redact
from rubricworks.runs.store import RunStore

_CACHED_ROWS = 4096
"""Largest shard that is remembered: neighbours in a list are mostly of one shard."""
_COLUMNS = {"rollouts": ("response", "response_type", "tokens"), "scorecards": ("response", "scorecard")}
_ROLLOUTS_OF_GROUP = (
    select(Rollout.reward, Rollout.advantage, Shard)
    .join(Shard, Shard.id == Rollout.shard_id)
    .where(*(getattr(Rollout, name) == bindparam(name) for name in ("run", "stage", "step", "sample_id")))
    .order_by(Rollout.row)
)
_MOST_SEARCHED = 50_000
"""Rollouts that one search for groups that differ looks at."""


class Group(NamedTuple):
    """The rollouts of one sample in one step, as a list shows them."""

    step: int
    sample_id: str
    rollouts: int
    unjudged: int
    mean: float | None
    lowest: float | None
    highest: float | None


class CriterionFigures(NamedTuple):
    """One criterion's credits over a training."""

    criterion: str
    graded: int
    pass_rate: float | None
    variance: float | None
    first: float | None
    """Mean credit in the first quarter of its steps."""
    last: float | None
    state: str
    """`always`, `never` or `varies`: the first two give no gradient."""


class Flips(NamedTuple):
    """Groups that differ on a criterion."""

    groups: list[tuple[int, str, float]]
    """Step, sample and the share of credit."""
    last: tuple[int, str] | None
    """Step and sample after which the search goes on, as enough were found or it took too long; None at its end."""


async def stages_with_rollouts(session: AsyncSession, run: str) -> Sequence[str]:
    """Stages of a run that have indexed rollouts."""
    return (await session.scalars(select(Shard.stage).where(Shard.run == run).distinct().order_by(Shard.stage))).all()


async def list_groups(
    session: AsyncSession,
    run: str,
    stage: str,
    *,
    step: int | None,
    sample_id: str | None,
    after: tuple[int, str] | None,
    limit: int,
) -> list[Group]:
    """Groups in the order of their steps."""
    place = (Rollout.step, Rollout.sample_id)
    query = (
        select(
            *place,
            func.count(),
            func.count() - func.count(Rollout.reward),
            func.avg(Rollout.reward),
            func.min(Rollout.reward),
            func.max(Rollout.reward),
        )
        .where(Rollout.run == run, Rollout.stage == stage)
        .group_by(*place)
        .order_by(*place)
        .limit(limit)
    )
    if step is not None:
        query = query.where(Rollout.step == step)
    if sample_id is not None:
        query = query.where(Rollout.sample_id == sample_id)
    if after is not None:
        query = query.where(tuple_(*place) > after)
    return [Group(*row) for row in await session.execute(query)]


async def step_range(session: AsyncSession, run: str, stage: str) -> tuple[int, int] | None:
    """First and last step that have rollouts."""
    first, last = (
        await session.execute(
            select(func.min(Rollout.step), func.max(Rollout.step)).where(Rollout.run == run, Rollout.stage == stage)
        )
    ).one()
    return None if first is None else (first, last)


async def get_group(
    session: AsyncSession, store: RunStore, run: str, stage: str, step: int, sample_id: str
) -> list[dict[str, Any]]:
    """The rollouts of a group, the highest reward first, each with its response and its verdicts with their reasons.

    Raises:
        NotFound: there is no such group.
    """
    check_name(run)
    place = {"run": run, "stage": stage, "step": step, "sample_id": sample_id}
    found = (await session.execute(_ROLLOUTS_OF_GROUP, place)).all()
    if not found:
        await get_run(session, run)  # is it the run that is unknown?
        raise NotFound(f"{run} has no rollouts of sample {sample_id!r} in step {step} of {stage}")
    members = []
    for shard in sorted({row.Shard for row in found}, key=lambda one: one.number):
        rows = [row for row in found if row.Shard is shard]
        written = await asyncio.to_thread(_read_group, store, shard, step, sample_id)
        if written is None or len(written) != len(rows):
            raise NotFound(f"the rollouts of step {step} are being replaced; ask again in a moment")
        members += [
            {"reward": row.reward, "advantage": row.advantage, **one} for row, one in zip(rows, written, strict=True)
        ]
    return sorted(members, key=lambda one: (one["reward"] is None, -(one["reward"] or 0.0)))


def ends_first(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A group's rollouts, the highest reward beside the lowest, then the next of both; unjudged ones last."""
    judged = [one for one in members if one["reward"] is not None]
    order = [judged[at // 2] if at % 2 == 0 else judged[-1 - at // 2] for at in range(len(judged))]
    return order + [one for one in members if one["reward"] is None]


async def neighbours(
    session: AsyncSession, run: str, stage: str, step: int, sample_id: str
) -> tuple[tuple[int, str] | None, tuple[int, str] | None]:
    """Groups before and after one, in the order of steps."""
    place = tuple_(Rollout.step, Rollout.sample_id)
    query = select(Rollout.step, Rollout.sample_id).where(Rollout.run == run, Rollout.stage == stage).limit(1)
    before = query.where(place < (step, sample_id)).order_by(Rollout.step.desc(), Rollout.sample_id.desc())
    after = query.where(place > (step, sample_id)).order_by(Rollout.step, Rollout.sample_id)
    rows = [(await session.execute(one)).first() for one in (before, after)]
    first, last = ((row[0], row[1]) if row else None for row in rows)
    return first, last


async def list_criteria(session: AsyncSession, run: str, stage: str) -> list[CriterionFigures]:
    """Figures of each criterion, those that give no gradient first, then by how often it was graded."""
    query = (
        select(CriterionCredits, Shard.number)
        .join(Shard, Shard.id == CriterionCredits.shard_id)
        .where(Shard.run == run, Shard.stage == stage)
        .order_by(Shard.number)
    )
    sums: defaultdict[str, list[CriterionCredits]] = defaultdict(list)
    for one, _ in (await session.execute(query)).all():
        sums[one.criterion].append(one)
    figures = [_figures(name, shards) for name, shards in sums.items()]
    return sorted(figures, key=lambda one: (one.state == "varies", -one.graded, one.criterion))


async def flips(
    session: AsyncSession, run: str, stage: str, criterion: str, *, after: tuple[int, str] | None, limit: int
) -> Flips:
    """Groups in which a criterion was met by some rollouts and not by others, the first steps first.

    Args:
        after: step and sample after which to look.
        limit: number of groups.
    """
    graded = select(CriterionCredits.shard_id).where(CriterionCredits.digest == names_digest([criterion]))
    query = (
        select(Rollout.step, Rollout.sample_id, Rollout.credits, RubricCriteria.names)
        .join(RubricCriteria, RubricCriteria.digest == Rollout.criteria)
        .where(Rollout.run == run, Rollout.stage == stage, Rollout.shard_id.in_(graded))
        .order_by(Rollout.step, Rollout.sample_id, Rollout.row)
    )
    if after is not None:
        query = query.where(tuple_(Rollout.step, Rollout.sample_id) > after)
    found: list[tuple[int, str, float]] = []
    last: tuple[int, str] | None = None
    place, credits, rows = (-1, ""), list[float](), 0
    async for step, sample_id, values, names in await session.stream(query.execution_options(yield_per=500)):
        if (step, sample_id) != place:
            found += _mixed(place, credits)
            if len(found) > limit or rows >= _MOST_SEARCHED:
                last = place
                break
            place, credits = (step, sample_id), []
        rows += 1
        credits += [
            credit
            for name, credit in zip(names, values or [], strict=False)
            if name == criterion and credit is not None
        ]
    else:
        found += _mixed(place, credits)
    return Flips(found, last) if len(found) <= limit else Flips(found[:limit], found[limit - 1][:2])


def _mixed(place: tuple[int, str], credits: list[float]) -> list[tuple[int, str, float]]:
    return [(*place, statistics.fmean(credits))] if len(set(credits)) > 1 else []


def _figures(name: str, shards: list[CriterionCredits]) -> CriterionFigures:
    graded = sum(one.graded for one in shards)
    mean = math.fsum(one.total for one in shards) / graded
    state = (
        "always"
        if min(one.lowest for one in shards) == 1
        else "never"
        if max(one.highest for one in shards) == 0
        else "varies"
    )
    return CriterionFigures(
        criterion=name,
        graded=graded,
        pass_rate=mean,
        variance=max(0.0, math.fsum(one.squares for one in shards) / graded - mean * mean),
        first=shards[0].total / shards[0].graded,
        last=shards[-1].total / shards[-1].graded,
        state=state,
    )


def _read_group(store: RunStore, shard: Shard, step: int, sample_id: str) -> list[dict[str, Any]] | None:
    read = _cached_files if shard.rows <= _CACHED_ROWS else _read_files
    place: tuple[Any, ...] = (store, shard.run, shard.stage, shard.number, shard.size, shard.modified)
    group = {"step": step, "sample_id": sample_id}
    rollouts, cards = (
        {} if content is None else rows_with(content, f"{shard.run}/{path}", group, _COLUMNS[table])
        for table, (path, content) in read(*place).items()
    )
    if not rollouts or not rollouts["response"]:
        return None
    graded: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for response, written in zip(cards.get("response", []), cards.get("scorecard", []), strict=True):
        graded[response].append(json.loads(written))
    members = []
    for position, response in enumerate(rollouts["response"]):
        options = graded[response]
        card = (options.pop(0) if len(options) > 1 else options[0]) if options else None
        members.append(
            {
                "response": response,
                "response_type": rollouts.get("response_type", {position: None})[position],
                "tokens": rollouts["tokens"][position],
                "judge": card["judge"] if card else None,
                "verdicts": [_without_secrets(one) for one in card["verdicts"]] if card else [],
                "raw": [redact(text) for text in card.get("raw", [])] if card else [],
            }
        )
    return members


def _without_secrets(verdict: dict[str, Any]) -> dict[str, Any]:
    """A verdict whose words show no secret: a failed call's message may hold what it was sent."""
    reasoning = verdict.get("reasoning")
    return {**verdict, "reasoning": redact(reasoning)} if reasoning else verdict


def _read_files(
    store: RunStore, run: str, stage: str, number: int, size: int, modified: datetime
) -> dict[str, tuple[str, bytes | None]]:
    """Path and content of a shard in each table; size and time tell it from one that replaces it."""
    paths = {table: f"{stage}/{table}/part-{number:05}.parquet" for table in _COLUMNS}
    return {table: (path, store.read(run, path)) for table, path in paths.items()}


@lru_cache(maxsize=16)
def _cached_files(*place: Any) -> dict[str, tuple[str, bytes | None]]:
    """As `_read_files`. Decoded, they would take twelve times the memory."""
    return _read_files(*place)
