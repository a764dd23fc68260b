"""Two judges on the same responses, blind: whose verdict is right, and how often each judge's is."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations, islice, starmap
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.grading.agreement.comparison import compare
from rubricworks.grading.agreement.labels import majority
from rubricworks.grading.agreement.ratings import Item, Ratings, normalise_text
from rubricworks.metrics import Interval
from rubricworks.platform_api.db.tables import Choice, Label, RunTable
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.schemas.judgements import JudgeStandingBody, JudgeStandingResult
from rubricworks.platform_api.services.judgements.blind_choices import (
    JUDGES,
    WHOLE,
    Comparison,
    Subject,
    count,
    count_choices,
    next_key,
)
from rubricworks.platform_api.services.judgements.judge_verdicts import (
    SCORECARDS,
    SCORES,
    Judge,
    JudgedResponse,
    JudgeVerdict,
    find_judge,
    has_verdicts,
    list_judges,
    read_card,
    response_key,
)
from rubricworks.platform_api.services.recent_values import remember
from rubricworks.platform_api.services.runs import get_run, list_tables
from rubricworks.runs.store import RunStore

ENOUGH = 20
"""Number of a person's choices after which the standing is shown, so that it does not sway them."""
_MIN_COUNT = 10
_TRIED_PAIRS = 8


class Pair(NamedTuple):
    """Two judges of the same responses."""

    first: Judge
    second: Judge


class BlindCriterion(NamedTuple):
    """Two verdicts on a criterion, in random order."""

    criterion: str
    left: JudgeVerdict
    right: JudgeVerdict


class BlindResponse(NamedTuple):
    """A response with two judges' verdicts, in random order."""

    key: str
    sample_id: str
    response: str
    response_type: str | None
    criteria: list[BlindCriterion]


async def judges_of_runs(session: AsyncSession, store: RunStore, names: Sequence[str]) -> dict[str, int]:
    """Judges of some runs by name, and the number of responses of each.

    Raises:
        NotFound: there is no such run.
    """
    tables: list[RunTable] = []
    for run in dict.fromkeys(names):
        await get_run(session, run)
        tables += await tables_with_verdicts(session, run=run)
    return await list_judges(store, tables)


async def tables_with_verdicts(
    session: AsyncSession, run: str | None = None, limit: int | None = None
) -> list[RunTable]:
    """Tables with verdicts of judges."""
    tables = [
        table
        for kind in (SCORECARDS, SCORES)
        for table in await list_tables(session, kind, run=run, limit=limit)
        if has_verdicts(table)
    ]
    return sorted(tables, key=lambda table: table.path)


async def find_pair(session: AsyncSession, store: RunStore, run: str, first: str, second: str) -> Pair:
    """Two judges by their names.

    Raises:
        NotFound: there is no such judge.
        BadRequest: they are the same, or neither is of the run.
    """
    if first == second:
        raise BadRequest("second: name another judge than the first")
    pair = Pair(await find_judge(session, store, first), await find_judge(session, store, second))
    if run not in (pair.first.table.run, pair.second.table.run):
        raise BadRequest(f"first: neither judge is of {run}")
    return pair


async def compare_judges(run: str, pair: Pair) -> Comparison:
    """Responses that both judges judged; those on which they differ come first."""
    place = tuple((judge.name, judge.table.modified) for judge in pair)
    keys = await remember(_keys_of_both, place, pair)

    def subject(key: str) -> Subject:
        judged, other = _both(pair, key)
        return Subject(judged.sample_id, judged.response, (WHOLE, *_criteria(judged, other)))

    return Comparison(JUDGES, run, pair.first.name, pair.second.name, keys, response_key, subject)


async def first_common_pair(
    session: AsyncSession, store: RunStore, run: str, names: Sequence[str]
) -> tuple[str, str] | None:
    """Names of the first two judges, one of them of the run, that judged a response in common; None if no two did."""
    judges = [await find_judge(session, store, name) for name in names]
    for pair in islice(starmap(Pair, combinations(judges, 2)), _TRIED_PAIRS):
        if run in (pair.first.table.run, pair.second.table.run) and any((await compare_judges(run, pair)).keys):
            return pair.first.name, pair.second.name
    return None


async def next_response(session: AsyncSession, comparison: Comparison, pair: Pair, rater: str) -> BlindResponse | None:
    """Next response without this person's choice; None after the last."""
    key = await next_key(session, comparison, rater)
    return blind_response(comparison, pair, key, rater) if key is not None else None


def blind_response(comparison: Comparison, pair: Pair, key: str, rater: str) -> BlindResponse:
    """A response as a person sees it.

    Raises:
        NotFound: the judges did not both judge it.
    """
    judged, other = _both(pair, key)
    left, right = (other, judged) if comparison.swaps(key, rater) else (judged, other)
    criteria = [BlindCriterion(name, left.verdicts[name], right.verdicts[name]) for name in _criteria(judged, other)]
    return BlindResponse(key, judged.sample_id, judged.response, judged.response_type, criteria)


async def standing_for(
    session: AsyncSession, comparison: Comparison, pair: Pair, rater: str, *, reveal: bool
) -> JudgeStandingBody:
    """A person's own choices, and the result once there are enough of them, or on request."""
    mine = await count_choices(session, comparison, rater)
    return JudgeStandingBody(
        first=comparison.first,
        second=comparison.second,
        mine=mine,
        needed=ENOUGH,
        result=await _standing(session, comparison, pair) if reveal or mine >= ENOUGH else None,
    )


async def _standing(session: AsyncSession, comparison: Comparison, pair: Pair) -> JudgeStandingResult:
    """People's choices, and each judge's agreement with their labels where there are some."""
    choices = (await session.scalars(select(Choice).where(*comparison.stored()))).all()
    labels = [
        label
        for run, stage in sorted({(judge.table.run, judge.stage) for judge in pair})
        for label in await session.scalars(select(Label).where(Label.run == run, Label.stage == stage))
    ]
    labelled, agreements = await asyncio.to_thread(_agreements, pair, labels) if labels else (0, (None, None))
    return JudgeStandingResult(
        criteria=count([choice for choice in choices if choice.criterion != WHOLE]),
        scorecards=count([choice for choice in choices if choice.criterion == WHOLE]),
        neither=sum(choice.choice == "neither" for choice in choices),
        labelled=labelled,
        first_agrees=agreements[0],
        second_agrees=agreements[1],
    )


def _both(pair: Pair, key: str) -> tuple[JudgedResponse, JudgedResponse]:
    if key not in pair.first.cards or key not in pair.second.cards:
        raise NotFound(f"{pair.first.name} and {pair.second.name} did not both judge such a response")
    return read_card(pair.first.cards[key]), read_card(pair.second.cards[key])


def _criteria(judged: JudgedResponse, other: JudgedResponse) -> list[str]:
    """Criteria that both judged by, in the first judge's order."""
    return [name for name in judged.verdicts if name in other.verdicts]


def _keys_of_both(pair: Pair) -> tuple[list[str], list[str]]:
    """Keys of the responses on which the judges differ, and of those on which they agree."""
    differ, agree = list[str](), list[str]()
    for key in pair.first.cards:
        if key not in pair.second.cards:
            continue
        judged, other = _both(pair, key)
        names = _criteria(judged, other)
        if any(judged.verdicts[name].credit != other.verdicts[name].credit for name in names):
            differ.append(key)
        elif names:
            agree.append(key)
    return differ, agree


def _agreements(pair: Pair, labels: Sequence[Label]) -> tuple[int, tuple[Interval | None, Interval | None]]:
    """Number of labelled criteria with both judges' credits, and each judge's agreement with the people on them."""
    people: dict[str, Ratings] = {}
    judges = tuple(Ratings(judge.name, judge.name) for judge in pair)
    by_response: defaultdict[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_response[response_key(label.sample_id, label.response)].append(label)
    for key, of_response in by_response.items():
        if key not in pair.first.cards or key not in pair.second.cards:
            continue
        both = _both(pair, key)
        for label in of_response:
            credits = [
                verdict.credit
                for judged in both
                for name, verdict in judged.verdicts.items()
                if normalise_text(name) == normalise_text(label.criterion) and verdict.credit is not None
            ]
            if len(credits) < 2:
                continue
            item = Item(*map(normalise_text, (label.sample_id, label.response, label.criterion)))
            people.setdefault(label.rater, Ratings(label.rater, "labels")).credits[item] = label.credit
            for ratings, credit in zip(judges, credits, strict=True):
                ratings.credits[item] = credit
    if not people:
        return 0, (None, None)
    by_majority = majority(list(people.values()))
    first, second = (compare(by_majority, judge, min_count=_MIN_COUNT).overall for judge in judges)
    return first.units, (first.accuracy, second.accuracy)
