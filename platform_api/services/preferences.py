"""Two models on the same samples, without their names: which response is better, and how often each model wins."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Preference, RunTable
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.blind_choices import (
    Standing,
    choice_of,
    is_swapped,
    read_rows,
    standing_of,
    turn_of,
    write_rows,
)
from rubricworks.platform_api.services.raters import imported_rater
from rubricworks.platform_api.services.recent_values import RecentValues
from rubricworks.platform_api.services.run_tables import iterate_rows
from rubricworks.runs.store import RunStore

KIND = "responses"
TABLE = "score/responses"
COLUMNS = ("sample_id", "first", "second", "choice", "rater")
CHOICES = ("first", "equal", "second")


class Answer(NamedTuple):
    """A model's response to a sample."""

    response: str
    response_type: str | None


_tables = RecentValues[dict[str, dict[str, Answer]]](4)


class Pair(NamedTuple):
    """Two responses to a sample, in an order that says nothing."""

    sample_id: str
    left: Answer
    right: Answer
    is_swapped: bool
    """The left one is the second model's."""


async def responses(store: RunStore, table: RunTable) -> dict[str, dict[str, Answer]]:
    """Model → sample → its response; a model is named with its step and decoding."""
    return await _tables.of_table(store, table, _read)


def other_model(models: Sequence[str], first: str) -> str:
    """A model to compare with the first: one of another name before the same at another step or in another decoding."""
    others = [one for one in models if one != first]
    return next((one for one in others if _bare_name(one) != _bare_name(first)), others[0] if others else first)


async def next_pair(
    session: AsyncSession, store: RunStore, table: RunTable, first: str, second: str, rater: str
) -> Pair | None:
    """A sample of which a person has not said which response is better; None after the last one.

    Raises:
        NotFound: there is no such model.
    """
    of_first, of_second = await _both(store, table, first, second)
    query = select(Preference.sample_id).where(
        Preference.run == table.run,
        Preference.first == first,
        Preference.second == second,
        Preference.rater == rater,
    )
    known = set(await session.scalars(query))
    open_samples = [one for one in of_first if one in of_second and one not in known]
    if not open_samples:
        return None
    sample = min(open_samples, key=lambda one: turn_of(rater, one))
    return _pair(sample, of_first[sample], of_second[sample], first, second, rater)


async def prefer(
    session: AsyncSession,
    store: RunStore,
    by: Principal,
    table: RunTable,
    *,
    first: str,
    second: str,
    sample_id: str,
    choice: str,
) -> Preference:
    """Store a person's choice; an earlier one of the same pair is replaced.

    Args:
        choice: `first`, `second` or `equal`.
    Raises:
        NotFound: there is no such model, or it has no response to the sample.
    """
    of_first, of_second = await _both(store, table, first, second)
    if sample_id not in of_first or sample_id not in of_second:
        raise NotFound(f"{first} and {second} do not both have a response to sample {sample_id!r}")
    preference = await _put(session, table.run, first, second, sample_id, choice, by.name)
    record(session, by, "preference.set", f"{table.run}/{sample_id}"[:300], first=first, second=second, choice=choice)
    return preference


async def list_preferences(
    session: AsyncSession, run: str, *, before: int | None = None, limit: int | None = None
) -> Sequence[Preference]:
    """Choices of all people, the newest first."""
    query = select(Preference).where(Preference.run == run).order_by(Preference.id.desc()).limit(limit)
    if before is not None:
        query = query.where(Preference.id < before)
    return (await session.scalars(query)).all()


async def standings(session: AsyncSession, run: str) -> dict[tuple[str, str], Standing]:
    """Results of each pair of models that people compared."""
    choices: dict[tuple[str, str], list[Preference]] = {}
    for one in await list_preferences(session, run):
        choices.setdefault((one.first, one.second), []).append(one)
    return {pair: standing_of(found) for pair, found in choices.items()}


def choice_of_side(side: str, pair: Pair) -> str:
    """The model that a side stands for: `left`, `right` or `equal` → `first`, `second` or `equal`."""
    return choice_of(side, pair.is_swapped)


async def pair_of(store: RunStore, table: RunTable, first: str, second: str, sample_id: str, rater: str) -> Pair:
    """The pair that a person sees of a sample.

    Raises:
        NotFound: there is no such model, or it has no response to the sample.
    """
    of_first, of_second = await _both(store, table, first, second)
    if sample_id not in of_first or sample_id not in of_second:
        raise NotFound(f"{first} and {second} do not both have a response to sample {sample_id!r}")
    return _pair(sample_id, of_first[sample_id], of_second[sample_id], first, second, rater)


async def export_csv(session: AsyncSession, run: str) -> str:
    """All choices, one per line."""
    return write_rows(COLUMNS, reversed(await list_preferences(session, run)))


async def import_csv(session: AsyncSession, store: RunStore, by: Principal, table: RunTable, text: bytes) -> int:
    """Store the choices of a CSV file; rows without a rater are the caller's, others' as `imported_rater` names them.

    Raises:
        BadRequest: a column is missing, or a row names no model, sample or choice of this run.
    """
    known = await responses(store, table)
    counts: Counter[str] = Counter()
    for line, row in read_rows(text, COLUMNS, CHOICES):
        for name in ("first", "second"):
            if row["sample_id"] not in known.get(row[name], {}):
                raise BadRequest(f"line {line}: {row[name]!r} has no response to sample {row['sample_id']!r}")
        rater = imported_rater(by, row["rater"] or by.name)
        counts[rater] += 1
        await _put(session, table.run, row["first"], row["second"], row["sample_id"], row["choice"], rater)
    record(session, by, "preference.import", table.run, preferences=counts.total(), raters=dict(counts))
    return counts.total()


async def _both(
    store: RunStore, table: RunTable, first: str, second: str
) -> tuple[dict[str, Answer], dict[str, Answer]]:
    models = await responses(store, table)
    for name in (first, second):
        if name not in models:
            raise NotFound(f"{table.run} has no responses of {name!r}; it has those of {', '.join(models)}")
    if first == second:
        raise BadRequest("second: name another model than the first")
    return models[first], models[second]


async def _put(
    session: AsyncSession, run: str, first: str, second: str, sample_id: str, choice: str, rater: str
) -> Preference:
    same = (Preference.run == run, Preference.first == first, Preference.second == second)
    await session.execute(delete(Preference).where(*same, Preference.sample_id == sample_id, Preference.rater == rater))
    preference = Preference(run=run, first=first, second=second, sample_id=sample_id, choice=choice, rater=rater)
    session.add(preference)
    await session.flush()
    return preference


def _pair(sample: str, of_first: Answer, of_second: Answer, first: str, second: str, rater: str) -> Pair:
    swapped = is_swapped(sample, first, second, rater)
    return Pair(sample, *((of_second, of_first) if swapped else (of_first, of_second)), swapped)


def _read(store: RunStore, table: RunTable) -> dict[str, dict[str, Answer]]:
    models: dict[str, dict[str, Answer]] = {}
    for row in iterate_rows(store, table):
        at = "" if row["step"] is None else f" at {row['step']}"
        name = f"{row['model']}{at}" + ("" if row["decoding"] == "greedy" else f", {row['decoding']}")
        models.setdefault(name, {}).setdefault(row["sample_id"], Answer(row["response"], row["response_type"]))
    return models


def _bare_name(model: str) -> str:
    """A model's name without its step and decoding."""
    return model.partition(", ")[0].partition(" at ")[0]
