"""Two judges on the same responses, without their names: whose verdict is right, and how often each judge's is."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, islice, starmap
from typing import Any, NamedTuple

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.grading.agreement.comparison import compare
from rubricworks.grading.agreement.labels import majority
from rubricworks.grading.agreement.ratings import Item, Ratings, normalise_text
from rubricworks.metrics import Interval
from rubricworks.platform_api.db.tables import JudgePreference, Label, RunTable
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.blind_choices import (
    Standing,
    is_swapped,
    read_rows,
    standing_of,
    turn_of,
    write_rows,
)
from rubricworks.platform_api.services.judges.judge_verdicts import (
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
from rubricworks.platform_api.services.labels import item_digest
from rubricworks.platform_api.services.raters import imported_rater
from rubricworks.platform_api.services.recent_values import RecentValues
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.platform_api.services.runs import get_run
from rubricworks.runs.store import RunStore

CHOICES = ("first", "second", "both", "neither")
COLUMNS = ("sample_id", "response", "criterion", "first", "second", "choice", "rater")
WHOLE = ""
"""Criterion of a choice about the whole scorecard."""
ENOUGH = 20
"""Choices of a person after which the standing says nothing that could sway the next ones."""
_MIN_COUNT = 10
_TRIED_PAIRS = 8
_common = RecentValues[tuple[list[str], list[str]]](8)


class Pair(NamedTuple):
    """Two judges of the same responses."""

    first: Judge
    second: Judge


class BlindCriterion(NamedTuple):
    """Two verdicts on a criterion, in an order that says nothing."""

    criterion: str
    left: JudgeVerdict
    right: JudgeVerdict


class BlindResponse(NamedTuple):
    """A response with two judges' verdicts, in an order that says nothing."""

    key: str
    sample_id: str
    response: str
    response_type: str | None
    criteria: list[BlindCriterion]
    is_swapped: bool
    """The left ones are the second judge's, for all criteria of the response."""


class JudgeStanding(NamedTuple):
    """Result of two judges."""

    criteria: Standing
    scorecards: Standing
    neither: int
    """Of the choices for neither side, those in which both verdicts are wrong."""
    labelled: int
    """Criteria on responses that both judged and people labelled."""
    first_agrees: Interval | None
    """Share of those on which the first judge gives the people's credit."""
    second_agrees: Interval | None


async def judges_of_runs(session: AsyncSession, store: RunStore, names: Sequence[str]) -> dict[str, int]:
    """Judges of some runs by name, and the number of responses of each.

    Raises:
        NotFound: there is no such run.
    """
    tables: list[RunTable] = []
    for run in dict.fromkeys(names):
        await get_run(session, run)
        tables += await _tables(session, run=run)
    return await list_judges(store, tables)


async def runs_with_verdicts(session: AsyncSession, *, but: str, limit: int) -> list[str]:
    """Other runs with judges, the last written ones."""
    return sorted({one.run for one in await _tables(session, limit=limit)} - {but})


async def has_judges(session: AsyncSession, run: str) -> bool:
    """Return True if a run has tables with verdicts."""
    return bool(await _tables(session, run=run))


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


async def first_common_pair(
    session: AsyncSession, store: RunStore, run: str, names: Sequence[str]
) -> tuple[str, str] | None:
    """Names of the first two judges, one of them of the run, that judged a response in common; None if no two did."""
    judges = [await find_judge(session, store, name) for name in names]
    for pair in islice(starmap(Pair, combinations(judges, 2)), _TRIED_PAIRS):
        if run in (pair.first.table.run, pair.second.table.run) and await count_common(pair):
            return pair.first.name, pair.second.name
    return None


async def next_response(session: AsyncSession, run: str, pair: Pair, rater: str) -> BlindResponse | None:
    """A response about which a person has said nothing yet; None after the last one.

    Those on which the judges differ come first; where they agree, their reasons may differ still.
    """
    query = select(JudgePreference.sample_id, JudgePreference.response).distinct()
    answered = {response_key(*row) for row in await session.execute(query.where(*_of_pair(run, pair, rater)))}
    for keys in await _responses_of_both(pair):
        if open_keys := [key for key in keys if key not in answered]:
            return response_of(pair, min(open_keys, key=lambda key: turn_of(rater, key)), rater)
    return None


async def count_common(pair: Pair) -> int:
    """Number of responses that both judged by a criterion of both."""
    return sum(map(len, await _responses_of_both(pair)))


def response_of(pair: Pair, key: str, rater: str) -> BlindResponse:
    """A response as a person sees it.

    Raises:
        NotFound: the judges did not both judge it.
    """
    judged, other = _both(pair, key)
    swapped = is_swapped(judged.sample_id, key, pair.first.name, pair.second.name, rater)
    left, right = (other, judged) if swapped else (judged, other)
    return BlindResponse(
        key,
        judged.sample_id,
        judged.response,
        judged.response_type,
        [BlindCriterion(name, left.verdicts[name], right.verdicts[name]) for name in _criteria(judged, other)],
        swapped,
    )


async def choose(
    session: AsyncSession,
    by: Principal,
    run: str,
    pair: Pair,
    sample_id: str,
    response: str,
    choices: Mapping[str, str],
) -> list[JudgePreference]:
    """Store a person's choices about a response; earlier ones about the same are replaced.

    Args:
        response: the text, or an image's digest.
        choices: criterion → `first`, `second`, `both` or `neither`; `WHOLE` stands for the scorecard.
    Raises:
        NotFound: the judges did not both judge the response.
        BadRequest: there is no choice, or they did not both judge by such a criterion.
    """
    judged, other = _both(pair, response_key(sample_id, response))
    if not choices:
        raise BadRequest("choices: choose for at least one criterion, or for the whole scorecard")
    if unknown := sorted(choices.keys() - {WHOLE, *_criteria(judged, other)}):
        raise BadRequest(f"choices: the judges did not both judge by {unknown[0]!r}")
    stored = [
        await _put(session, run, pair, judged, criterion, choice, by.name) for criterion, choice in choices.items()
    ]
    record(
        session,
        by,
        "judge_preference.set",
        f"{run}/{sample_id}"[:300],
        first=pair.first.name,
        second=pair.second.name,
        choices=len(stored),
    )
    return stored


async def list_choices(
    session: AsyncSession, run: str, *, before: int | None = None, limit: int | None = None
) -> Sequence[JudgePreference]:
    """Choices of all people, the newest first."""
    query = select(JudgePreference).where(JudgePreference.run == run).order_by(JudgePreference.id.desc()).limit(limit)
    if before is not None:
        query = query.where(JudgePreference.id < before)
    return (await session.scalars(query)).all()


async def count_choices(session: AsyncSession, run: str, pair: Pair, rater: str) -> int:
    """Number of a person's choices between two judges."""
    query = select(func.count()).select_from(JudgePreference).where(*_of_pair(run, pair, rater))
    return await session.scalar(query) or 0


async def standing(session: AsyncSession, run: str, pair: Pair) -> JudgeStanding:
    """Result of two judges: people's choices, and each judge's agreement with their labels where there are some."""
    choices = (await session.scalars(select(JudgePreference).where(*_of_pair(run, pair)))).all()
    tables = {(judge.table.run, judge.stage) for judge in pair}
    labels = [
        one
        for place in sorted(tables)
        for one in await session.scalars(select(Label).where(Label.run == place[0], Label.stage == place[1]))
    ]
    units, agreements = await asyncio.to_thread(_agreements, pair, labels) if labels else (0, (None, None))
    return JudgeStanding(
        standing_of([one for one in choices if one.criterion != WHOLE]),
        standing_of([one for one in choices if one.criterion == WHOLE]),
        sum(one.choice == "neither" for one in choices),
        units,
        *agreements,
    )


async def standing_for(
    session: AsyncSession, run: str, pair: Pair, rater: str, *, reveal: bool
) -> tuple[int, JudgeStanding | None]:
    """Number of a person's own choices, and the result once there are enough of them, or at their wish."""
    mine = await count_choices(session, run, pair, rater)
    return mine, await standing(session, run, pair) if reveal or mine >= ENOUGH else None


async def export_csv(session: AsyncSession, run: str) -> str:
    """All choices, one per line."""
    return write_rows(COLUMNS, reversed(await list_choices(session, run)))


async def import_csv(session: AsyncSession, store: RunStore, by: Principal, run: str, text: bytes) -> int:
    """Store the choices of a CSV file; rows without a rater are the caller's, others' as `imported_rater` names them.

    Raises:
        BadRequest: a column is missing, or a row names no judge, response, criterion or choice.
    """
    pairs: dict[tuple[str, str], Pair] = {}
    counts: Counter[str] = Counter()
    for line, row in read_rows(text, COLUMNS, CHOICES, may_be_empty=("response", "criterion", "rater")):
        names = (row["first"], row["second"])
        try:
            if names not in pairs:
                pairs[names] = await find_pair(session, store, run, *names)
            judged, other = _both(pairs[names], response_key(row["sample_id"], row["response"]))
        except (BadRequest, NotFound) as error:
            raise BadRequest(f"line {line}: {error.detail}") from error
        known = {normalise_text(name): name for name in (WHOLE, *_criteria(judged, other))}
        criterion = known.get(normalise_text(row["criterion"]))
        if criterion is None:
            raise BadRequest(f"line {line}: the judges did not both judge by {row['criterion']!r}")
        rater = imported_rater(by, row["rater"] or by.name)
        counts[rater] += 1
        await _put(session, run, pairs[names], judged, criterion, row["choice"], rater)
    record(session, by, "judge_preference.import", run, preferences=counts.total(), raters=dict(counts))
    return counts.total()


async def _tables(session: AsyncSession, run: str | None = None, limit: int | None = None) -> list[RunTable]:
    found = [
        table
        for kind in (SCORECARDS, SCORES)
        for table in await list_tables(session, kind, run=run, limit=limit)
        if has_verdicts(table)
    ]
    return sorted(found, key=lambda one: one.path)


def _of_pair(run: str, pair: Pair, rater: str | None = None) -> list[Any]:
    conditions = [
        JudgePreference.run == run,
        JudgePreference.first == pair.first.name,
        JudgePreference.second == pair.second.name,
    ]
    return conditions if rater is None else [*conditions, JudgePreference.rater == rater]


async def _put(
    session: AsyncSession, run: str, pair: Pair, judged: JudgedResponse, criterion: str, choice: str, rater: str
) -> JudgePreference:
    item = item_digest(Item(judged.sample_id, judged.response, criterion))
    await session.execute(delete(JudgePreference).where(*_of_pair(run, pair, rater), JudgePreference.item == item))
    preference = JudgePreference(
        run=run,
        first=pair.first.name,
        second=pair.second.name,
        sample_id=judged.sample_id,
        response=judged.response,
        item=item,
        criterion=criterion,
        choice=choice,
        rater=rater,
    )
    session.add(preference)
    await session.flush()
    return preference


def _both(pair: Pair, key: str) -> tuple[JudgedResponse, JudgedResponse]:
    if key not in pair.first.cards or key not in pair.second.cards:
        raise NotFound(f"{pair.first.name} and {pair.second.name} did not both judge such a response")
    return read_card(pair.first.cards[key]), read_card(pair.second.cards[key])


def _criteria(judged: JudgedResponse, other: JudgedResponse) -> list[str]:
    """Criteria that both judged by, in the first judge's order."""
    return [name for name in judged.verdicts if name in other.verdicts]


async def _responses_of_both(pair: Pair) -> tuple[list[str], list[str]]:
    """Keys of the responses on which the judges differ, and of those on which they agree."""
    place = tuple((judge.name, judge.table.modified) for judge in pair)
    return await _common.get(place, _compare_cards, pair)


def _compare_cards(pair: Pair) -> tuple[list[str], list[str]]:
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
    for key, of_response in _by_response(labels).items():
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


def _by_response(labels: Sequence[Label]) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = {}
    for one in labels:
        found.setdefault(response_key(one.sample_id, one.response), []).append(one)
    return found
