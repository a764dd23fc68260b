"""Rollouts of a training: groups by step, each response with its verdicts, and criteria over the whole training."""

import asyncio
import logging
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import bindparam, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import CriterionCredits, Rollout, RubricCriteria, Shard
from rubricworks.platform_api.pagination import PageRequest, decode_cursor, encode_cursor, query_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.rollouts import (
    CriterionBody,
    FlipBody,
    GroupBody,
    GroupDetail,
    RolloutBody,
    StoredCard,
)
from rubricworks.platform_api.services.indexed_rollouts import names_digest
from rubricworks.platform_api.services.runs import check_name, get_run
from rubricworks.platform_api.services.samples import samples_called
from rubricworks.redaction import redact
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import Row, TableFile, UnreadableTable, parse_cell

_ROLLOUTS_OF_GROUP = (
    select(Rollout.reward, Rollout.advantage, Shard)
    .join(Shard, Shard.id == Rollout.shard_id)
    .where(*(getattr(Rollout, name) == bindparam(name) for name in ("run", "stage", "step", "sample_id")))
    .order_by(Rollout.row)
)
_MOST_SEARCHED = 50_000
"""Rollouts that one search for groups that differ looks at."""
_STEPS_AT_ENDS = 10
_log = logging.getLogger(__name__)


async def stages_with_rollouts(session: AsyncSession, run: str) -> Sequence[str]:
    """Stages of a run that have indexed rollouts."""
    return (await session.scalars(select(Shard.stage).where(Shard.run == run).distinct().order_by(Shard.stage))).all()


async def list_groups(
    session: AsyncSession,
    run: str,
    stage: str,
    asked: PageRequest,
    *,
    step: int | None = None,
    sample_id: str | None = None,
    file: str = "",
) -> Page[GroupBody]:
    """Groups in the order of their steps.

    Args:
        file: part of the name of the pictures' files, or the id of a sample; empty for all.
    """
    place = (Rollout.step, Rollout.sample_id)
    query = (
        select(
            *place,
            func.count().label("rollouts"),
            (func.count() - func.count(Rollout.reward)).label("unjudged"),
            func.avg(Rollout.reward).label("mean"),
            func.min(Rollout.reward).label("lowest"),
            func.max(Rollout.reward).label("highest"),
        )
        .where(Rollout.run == run, Rollout.stage == stage)
        .group_by(*place)
    )
    if step is not None:
        query = query.where(Rollout.step == step)
    if sample_id is not None:
        query = query.where(Rollout.sample_id == sample_id)
    if file:
        query = query.where(Rollout.sample_id.in_(samples_called(run, file)))
    return await query_page(session, query, place, asked, GroupBody.model_validate, ascending=True)


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
) -> GroupDetail:
    """A group with its responses, the highest reward first, and their verdicts with their reasons.

    Raises:
        NotFound: there is no such group.
    """
    check_name(run)
    place = {"run": run, "stage": stage, "step": step, "sample_id": sample_id}
    indexed = (await session.execute(_ROLLOUTS_OF_GROUP, place)).all()
    if not indexed:
        await get_run(session, run)  # is it the run that is unknown?
        raise NotFound(f"{run} has no rollouts of sample {sample_id!r} in step {step} of {stage}")
    members: list[RolloutBody] = []
    for shard in sorted({row.Shard for row in indexed}, key=lambda shard: shard.number):
        rows = [row for row in indexed if row.Shard is shard]
        written = await asyncio.to_thread(read_group, store, shard, step, sample_id)
        if len(written) != len(rows):
            raise NotFound(f"the rollouts of step {step} are being replaced; ask again in a moment")
        for row, member in zip(rows, written, strict=True):
            member.reward, member.advantage = row.reward, row.advantage
        members += written
    members.sort(key=lambda member: (member.reward is None, -(member.reward or 0.0)))
    return GroupDetail(step=step, sample_id=sample_id, rollouts=members)


def ends_first(members: Sequence[RolloutBody]) -> list[RolloutBody]:
    """A group's rollouts, alternating highest and lowest reward; unjudged ones last."""
    judged = [member for member in members if member.reward is not None]
    order = [judged[at // 2] if at % 2 == 0 else judged[-1 - at // 2] for at in range(len(judged))]
    return order + [member for member in members if member.reward is None]


async def neighbours(
    session: AsyncSession, run: str, stage: str, step: int, sample_id: str
) -> tuple[tuple[int, str] | None, tuple[int, str] | None]:
    """Groups before and after one, in the order of steps."""
    place = tuple_(Rollout.step, Rollout.sample_id)
    query = select(Rollout.step, Rollout.sample_id).where(Rollout.run == run, Rollout.stage == stage).limit(1)
    before = query.where(place < (step, sample_id)).order_by(Rollout.step.desc(), Rollout.sample_id.desc())
    after = query.where(place > (step, sample_id)).order_by(Rollout.step, Rollout.sample_id)
    rows = [(await session.execute(neighbour)).first() for neighbour in (before, after)]
    first, last = ((row[0], row[1]) if row else None for row in rows)
    return first, last


async def list_criteria(session: AsyncSession, run: str, stage: str) -> list[CriterionBody]:
    """Figures of each criterion, those that give no gradient first, then by how often it was graded."""
    query = (
        select(CriterionCredits)
        .join(Shard, Shard.id == CriterionCredits.shard_id)
        .where(Shard.run == run, Shard.stage == stage)
        .order_by(Shard.number)
    )
    sums: defaultdict[str, list[CriterionCredits]] = defaultdict(list)
    for credits in await session.scalars(query):
        sums[credits.criterion].append(credits)
    first, last = await _credits_at_ends(session, run, stage)
    figures = [_figures(name, shards, first.get(name), last.get(name)) for name, shards in sums.items()]
    return sorted(figures, key=lambda criterion: (criterion.state == "varies", -criterion.graded, criterion.criterion))


async def criterion_names(session: AsyncSession, run: str, stage: str) -> list[str]:
    """Names of the criteria that were graded in a stage, the most often graded first."""
    query = (
        select(CriterionCredits.criterion)
        .join(Shard, Shard.id == CriterionCredits.shard_id)
        .where(Shard.run == run, Shard.stage == stage)
        .group_by(CriterionCredits.criterion)
        .order_by(func.sum(CriterionCredits.graded).desc(), CriterionCredits.criterion)
    )
    return list(await session.scalars(query))


async def _credits_at_ends(
    session: AsyncSession, run: str, stage: str
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Credits by criterion in the first and in the last `_STEPS_AT_ENDS` steps; in each half of a shorter training."""
    steps = select(func.min(Rollout.step), func.max(Rollout.step)).where(Rollout.run == run, Rollout.stage == stage)
    begin, end = (await session.execute(steps)).one()
    if begin is None or end == begin:
        return {}, {}
    length = min(_STEPS_AT_ENDS, (end - begin + 1) // 2)
    query = (
        select(Rollout.step, Rollout.credits, RubricCriteria.names)
        .join(RubricCriteria, RubricCriteria.digest == Rollout.criteria)
        .where(
            Rollout.run == run,
            Rollout.stage == stage,
            or_(Rollout.step < begin + length, Rollout.step > end - length),
        )
        .execution_options(yield_per=500)
    )
    first, last = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    async for step, values, names in await session.stream(query):
        credits_at = first if step < begin + length else last
        for name, credit in zip(names, values or [], strict=False):
            if credit is not None:
                credits_at[name].append(credit)
    return first, last


async def flips(session: AsyncSession, run: str, stage: str, criterion: str, asked: PageRequest) -> Page[FlipBody]:
    """Groups in which a criterion was met by some rollouts and not by others, the first steps first.

    A search looks at so many rollouts at most: a page may have few groups, or none, and a next one.
    """
    graded = select(CriterionCredits.shard_id).where(CriterionCredits.digest == names_digest([criterion]))
    query = (
        select(Rollout.step, Rollout.sample_id, Rollout.credits, RubricCriteria.names)
        .join(RubricCriteria, RubricCriteria.digest == Rollout.criteria)
        .where(Rollout.run == run, Rollout.stage == stage, Rollout.shard_id.in_(graded))
        .order_by(Rollout.step, Rollout.sample_id, Rollout.row)
    )
    if asked.cursor is not None:
        query = query.where(tuple_(Rollout.step, Rollout.sample_id) > decode_cursor(asked.cursor, int, str))
    groups: list[FlipBody] = []
    last: tuple[int, str] | None = None
    place, credits, rows = (-1, ""), list[float](), 0
    async for step, sample_id, values, names in await session.stream(query.execution_options(yield_per=500)):
        if (step, sample_id) != place:
            groups += _mixed(place, credits)
            if len(groups) > asked.limit or rows >= _MOST_SEARCHED:
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
        groups += _mixed(place, credits)
    if len(groups) > asked.limit:
        last = (groups[asked.limit - 1].step, groups[asked.limit - 1].sample_id)
    return Page(items=groups[: asked.limit], next_cursor=encode_cursor(*last) if last else None)


def _mixed(place: tuple[int, str], credits: list[float]) -> list[FlipBody]:
    if len(set(credits)) < 2:
        return []
    return [FlipBody(step=place[0], sample_id=place[1], credit=statistics.fmean(credits))]


def _figures(
    name: str, shards: list[CriterionCredits], first: list[float] | None, last: list[float] | None
) -> CriterionBody:
    graded = sum(credits.graded for credits in shards)
    mean = math.fsum(credits.total for credits in shards) / graded
    lowest, highest = min(credits.lowest for credits in shards), max(credits.highest for credits in shards)
    return CriterionBody(
        criterion=name,
        graded=graded,
        pass_rate=mean,
        variance=max(0.0, math.fsum(credits.squares for credits in shards) / graded - mean * mean),
        first=statistics.fmean(first) if first else None,
        last=statistics.fmean(last) if last else None,
        state="always" if lowest == 1 else "never" if highest == 0 else "varies",
    )


def read_group(store: RunStore, shard: Shard, step: int, sample_id: str) -> list[RolloutBody]:
    """Rollouts of a group in the order of their rows, without what the index has; empty if they are gone. Blocks."""
    place: dict[str, str | int] = {"step": step, "sample_id": sample_id}
    rollouts, cards = (
        _rows_of(store, shard, table, place, columns)
        for table, columns in (
            ("rollouts", ["response", "response_type", "tokens"]),
            ("scorecards", ["response", "scorecard"]),
        )
    )
    graded: defaultdict[str, list[StoredCard]] = defaultdict(list)
    for row in cards:
        where = f"{shard.run}/{shard.stage}/scorecards: step {step} of sample {sample_id!r}"
        graded[row["response"]].append(parse_cell(where, StoredCard.model_validate_json, row["scorecard"]))
    members = []
    for row in rollouts:
        options = graded[row["response"]]
        card = (options.pop(0) if len(options) > 1 else options[0]) if options else StoredCard()
        # A failed call's message may hold what it was sent.
        for verdict in card.verdicts:
            verdict.reasoning = redact(verdict.reasoning) if verdict.reasoning else verdict.reasoning
        member = RolloutBody(
            response=row["response"],
            response_type=row.get("response_type"),
            tokens=row["tokens"],
            reward=None,
            advantage=None,
            judge=card.judge,
            verdicts=list(card.verdicts),
            raw=[redact(text) for text in card.raw],
        )
        members.append(member)
    return members


def _rows_of(store: RunStore, shard: Shard, table: str, place: dict[str, str | int], columns: list[str]) -> list[Row]:
    path = f"{shard.stage}/{table}/part-{shard.number:05}.parquet"
    try:
        return TableFile(store, shard.run, path, (shard.size, shard.modified), kind=table).rows_where(place, columns)
    except UnreadableTable as error:
        _log.warning("%s", error)
        return []
