"""Rollouts found one by one: by text, reward, criterion, file, cut off or not judged, in the order of steps or rewards.

Texts stay in Parquet: a search decodes one column of each shard, several shards at a time, and needs no index of words.
Everything else is in the database.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Select, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import CriterionCredits, Rollout, RubricCriteria, Shard
from rubricworks.platform_api.pagination import PageRequest, decode_cursor, encode_cursor, list_page
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.schemas.rollouts import RolloutPage, RolloutRowBody
from rubricworks.platform_api.services.indexed_rollouts import names_digest, shard_path
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.services.run_comparison import read_settings
from rubricworks.platform_api.services.samples import samples_called
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import TableFile, UnreadableTable

LIMIT_FIELD = "policy.algorithm.rollouts.max_new_tokens"
"""Field of a recipe by which rollouts are cut off."""
_MOST_MATCHES = 2_000
"""Responses that a search for a text takes, those of the first steps."""
_MOST_SEARCHED = 50_000
"""Rollouts that a search for a criterion looks at."""
_AT_ONCE = 8
"""Shards that are searched together."""
_PAIRS = 400
"""Rows that one query names: databases bound the number of parameters."""
_log = logging.getLogger(__name__)

Sort = Literal["step", "reward"]
Met = Literal["", "met", "unmet"]
_ORDERS: dict[str, tuple[Any, ...]] = {
    "step": (Rollout.step, Rollout.sample_id, Rollout.row),
    "reward": (Rollout.reward, Rollout.id),
}


class RolloutFilter(NamedTuple):
    """Rollouts that a list has; an empty value takes all."""

    text: str = ""
    """Part of the response, in either case."""
    least: float | None = None
    """Lowest reward."""
    most: float | None = None
    criterion: str = ""
    met: Met = ""
    """State of the criterion: `met` is a credit of 1, `unmet` any below."""
    truncated: bool = False
    unjudged: bool = False
    file: str = ""
    """Part of the name of the picture's file, or the id of a sample."""
    step: int | None = None


class _Row(NamedTuple):
    rollout: Rollout
    credit: float | None


async def find_rollouts(
    session: AsyncSession,
    store: RunStore,
    run: str,
    stage: str,
    wanted: RolloutFilter,
    asked: PageRequest,
    sort: Sort = "step",
    *,
    ascending: bool = True,
) -> RolloutPage:
    """A page of rollouts with their responses. The order of rewards has none that were not judged.

    Raises:
        BadRequest: those that were cut off are asked for, and the recipe names no limit.
    """
    conditions = await _conditions(session, store, run, stage, wanted, sort)
    shards = (
        await session.scalars(select(Shard).where(Shard.run == run, Shard.stage == stage).order_by(Shard.number))
    ).all()
    is_cut = False
    if wanted.text:
        matches, is_cut = await _matches(store, await _of_step(session, shards, wanted.step), wanted.text)
        rows = [row async for row in _rows_at(session, matches, conditions, wanted)]
        rows.sort(key=lambda row: tuple(getattr(row.rollout, column.key) for column in _ORDERS[sort]))
        page = list_page(rows if ascending else rows[::-1], asked)
        rows_of_page, cursor = page.items, page.next_cursor
    else:
        query = _query(wanted).where(Rollout.run == run, Rollout.stage == stage, *conditions)
        rows_of_page, cursor = await _page(session, query, _ORDERS[sort], asked, wanted, ascending=ascending)
    by_id = {shard.id: shard for shard in shards}
    bodies = await asyncio.to_thread(_bodies, store, rows_of_page, by_id)
    return RolloutPage(items=bodies, next_cursor=cursor, is_cut=is_cut)


async def _conditions(
    session: AsyncSession, store: RunStore, run: str, stage: str, wanted: RolloutFilter, sort: Sort
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.least is not None:
        conditions.append(Rollout.reward >= wanted.least)
    if wanted.most is not None:
        conditions.append(Rollout.reward <= wanted.most)
    if wanted.unjudged:
        conditions.append(Rollout.reward.is_(None))
    elif sort == "reward":
        conditions.append(Rollout.reward.is_not(None))
    if wanted.step is not None:
        conditions.append(Rollout.step == wanted.step)
    if wanted.file:
        conditions.append(Rollout.sample_id.in_(samples_called(run, wanted.file)))
    if wanted.criterion:
        graded = select(CriterionCredits.shard_id).where(CriterionCredits.digest == names_digest([wanted.criterion]))
        conditions.append(Rollout.shard_id.in_(graded))
    if wanted.truncated:
        limit = (await asyncio.to_thread(read_settings, store, run)).get(LIMIT_FIELD, "")
        if not limit.isdecimal():
            raise BadRequest(f"truncated: the recipe of {run} has no {LIMIT_FIELD}, which would tell what was cut off")
        conditions.append(Rollout.tokens >= int(limit))
    return conditions


def _query(wanted: RolloutFilter) -> Any:
    if not wanted.criterion:
        return select(Rollout)
    return select(Rollout, RubricCriteria.names).join(RubricCriteria, RubricCriteria.digest == Rollout.criteria)


def _accepted(row: Any, wanted: RolloutFilter) -> _Row | None:
    """A row of `_query` with the credit of the criterion; None if it is not wanted."""
    if not wanted.criterion:
        return _Row(row[0], None)
    rollout, names = row
    credits = [credit for name, credit in zip(names, rollout.credits or [], strict=False) if name == wanted.criterion]
    credit = next((credit for credit in credits if credit is not None), None)
    if credit is None or (wanted.met == "met" and credit < 1) or (wanted.met == "unmet" and credit >= 1):
        return None
    return _Row(rollout, credit)


async def _page(
    session: AsyncSession,
    query: Select[Any],
    order: Sequence[Any],
    asked: PageRequest,
    wanted: RolloutFilter,
    *,
    ascending: bool,
) -> tuple[list[_Row], str | None]:
    """Rows of a page and the cursor of the next one, which may lead on where a search ended early."""
    if asked.cursor is not None:
        place = decode_cursor(asked.cursor, *(column.type.python_type for column in order))
        query = query.where(tuple_(*order) > place if ascending else tuple_(*order) < place)
    query = query.order_by(*(column if ascending else column.desc() for column in order))
    if not wanted.criterion:
        query = query.limit(asked.limit + 1)
    rows: list[_Row] = []
    looked_at, last = 0, None
    async for row in await session.stream(query.execution_options(yield_per=500)):
        if len(rows) == asked.limit or looked_at == _MOST_SEARCHED:
            return rows, encode_cursor(*(getattr(last, column.key) for column in order))
        looked_at, last = looked_at + 1, row[0]
        if (accepted := _accepted(row, wanted)) is not None:
            rows.append(accepted)
    return rows, None


async def _rows_at(
    session: AsyncSession,
    matches: Sequence[tuple[int, int]],
    conditions: Sequence[ColumnElement[bool]],
    wanted: RolloutFilter,
) -> AsyncIterator[_Row]:
    """Wanted rows at places in shards."""
    for start in range(0, len(matches), _PAIRS):
        here = tuple_(Rollout.shard_id, Rollout.row).in_(matches[start : start + _PAIRS])
        for row in await session.execute(_query(wanted).where(here, *conditions)):
            if (accepted := _accepted(row, wanted)) is not None:
                yield accepted


async def _of_step(session: AsyncSession, shards: Sequence[Shard], step: int | None) -> Sequence[Shard]:
    """Shards that hold rollouts of a step; all of them for None."""
    if step is None or not shards:
        return shards
    place = (Rollout.run == shards[0].run, Rollout.stage == shards[0].stage, Rollout.step == step)
    ids = set(await session.scalars(select(Rollout.shard_id).where(*place).distinct()))
    return [shard for shard in shards if shard.id in ids]


async def _matches(store: RunStore, shards: Sequence[Shard], text: str) -> tuple[list[tuple[int, int]], bool]:
    """Shard and row of the responses that hold a text, and whether there are more than are taken."""
    matches: list[tuple[int, int]] = []
    for start in range(0, len(shards), _AT_ONCE):
        group = shards[start : start + _AT_ONCE]
        parts = await asyncio.gather(*(asyncio.to_thread(_rows_with, store, shard, text) for shard in group))
        for shard, rows in zip(group, parts, strict=True):
            matches += [(shard.id, row) for row in rows]
        if len(matches) > _MOST_MATCHES:
            return matches[:_MOST_MATCHES], True
    return matches, False


def _rows_with(store: RunStore, shard: Shard, text: str) -> list[int]:
    """Rows of a shard whose response holds a text. Blocks."""
    import pyarrow.compute as pc

    try:
        responses = _file(store, shard).columns(["response"])["response"]
    except UnreadableTable as error:
        _log.warning("%s", error)
        return []
    holds = pc.match_substring(responses, text, ignore_case=True)
    rows: list[int] = pc.indices_nonzero(holds).to_pylist()
    return rows


def _file(store: RunStore, shard: Shard) -> TableFile:
    path = shard_path(shard.stage, "rollouts", shard.number)
    return TableFile(store, shard.run, path, (shard.size, shard.modified), kind="rollouts")


def _bodies(store: RunStore, rows: Sequence[_Row], shards: dict[int, Shard]) -> list[RolloutRowBody]:
    """Rows with their responses; empty while their shard is being replaced. Blocks."""
    written = {
        shard: _written(store, shards[shard], [row.rollout.row for row in rows if row.rollout.shard_id == shard])
        for shard in {row.rollout.shard_id for row in rows}
    }
    bodies = []
    for rollout, credit in rows:
        columns = written[rollout.shard_id].get(rollout.row, {})
        response = columns.get("response") or ""
        bodies.append(
            RolloutRowBody(
                step=rollout.step,
                sample_id=rollout.sample_id,
                response=response,
                response_type=columns.get("response_type"),
                digest=response_digest(response),
                tokens=rollout.tokens,
                reward=rollout.reward,
                advantage=rollout.advantage,
                credit=credit,
            )
        )
    return bodies


def _written(store: RunStore, shard: Shard, rows: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Responses of a shard by their rows; none while its file is being replaced."""
    try:
        return _file(store, shard).rows_at(rows, ["response", "response_type"])
    except UnreadableTable as error:
        _log.warning("%s", error)
        return {}


def marked(response: str, text: str, around: int = 110) -> Iterator[tuple[str, bool]]:
    """Parts of a response around the first place of a text, each with whether it is the text."""
    at = response.lower().find(text.lower()) if text else -1
    if at < 0:
        yield response[: 2 * around] + (" …" if len(response) > 2 * around else ""), False
        return
    begin, end = max(0, at - around), at + len(text)
    yield ("… " if begin else "") + response[begin:at], False
    yield response[at:end], True
    yield response[end : end + around] + (" …" if len(response) > end + around else ""), False
