"""Blind choices: which of two unnamed sides is better or right.

One service for both kinds. Two models are compared by their responses to a sample (`model_choices`), two judges by
their verdicts on a response, criterion by criterion (`judge_choices`). Either makes a `Comparison` of what both sides
have; the rest is the same: the order in which a person is shown it, which side stands on the left, one choice of a
person about one thing, the standing so far, and CSV in and out.
"""

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.spreadsheet_cells import guard_cell, unguard_cell
from rubricworks.grading.agreement.ratings import Item, normalise_text
from rubricworks.metrics import mean_interval
from rubricworks.platform_api.db.tables import Choice
from rubricworks.platform_api.pagination import PageRequest, query_page
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.schemas.bodies import Body, Page
from rubricworks.platform_api.schemas.judgements import ChoiceCounts
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal, Right
from rubricworks.platform_api.services.samples import file_names

B = TypeVar("B", bound=Body)
WHOLE = ""
"""Criterion of a choice about the whole."""
_WINS = {"first": 1.0, "second": 0.0}
"""Value of a choice for the first side; any other counts one half."""
_LONGEST_NAME = 100


class Kind(NamedTuple):
    """Kind of comparison."""

    name: str
    action: str
    """Name in the audit log."""
    choices: tuple[str, ...]
    columns: tuple[str, ...]
    """Columns of its CSV."""


MODELS = Kind("models", "preference", ("first", "equal", "second"), ("sample_id", "first", "second", "choice", "rater"))
JUDGES = Kind(
    "judges",
    "judge_preference",
    ("first", "second", "both", "neither"),
    ("sample_id", "response", "criterion", "first", "second", "choice", "rater"),
)


class Subject(NamedTuple):
    """Unit of a choice."""

    sample_id: str
    response: str
    """Response that both judged; empty if the responses differ."""
    criteria: tuple[str, ...]
    """`WHOLE`, and each criterion of which both sides have something."""


@dataclass(frozen=True)
class Comparison:
    """Two sides, and what both have."""

    kind: Kind
    run: str
    first: str
    second: str
    keys: Sequence[Sequence[str]]
    """Keys of units that both sides have; keys of the first list are shown first."""
    key_of: Callable[[str, str], str]
    """Sample and response → key."""
    subject: Callable[[str], Subject]
    """Key → subject; raises NotFound."""

    def swaps(self, key: str, rater: str) -> bool:
        """Return True if the second side is shown on the left: random, but constant for a person."""
        place = (self.subject(key).sample_id, key, self.first, self.second, rater)
        return hashlib.sha256("\0".join(place).encode()).digest()[0] % 2 == 1

    def choice_of(self, side: str, key: str, rater: str) -> str:
        """Translate a side: `left` and `right` → `first` or `second`; other choices are unchanged."""
        if side not in ("left", "right"):
            return side
        return "first" if (side == "left") != self.swaps(key, rater) else "second"

    def stored(self, rater: str | None = None) -> tuple[ColumnElement[bool], ...]:
        """Condition of the choices between these sides, of one person or of all."""
        sides = (Choice.first == self.first, Choice.second == self.second)
        of_pair = (*_of_run(self.kind, self.run), *sides)
        return of_pair if rater is None else (*of_pair, Choice.rater == rater)


async def next_key(session: AsyncSession, comparison: Comparison, rater: str) -> str | None:
    """Next unit without a choice of this person; None after the last."""
    query = select(Choice.sample_id, Choice.response).where(*comparison.stored(rater)).distinct()
    known = {comparison.key_of(*row) for row in await session.execute(query)}
    for keys in comparison.keys:
        if left := [key for key in keys if key not in known]:
            return min(left, key=lambda key: hashlib.sha256(f"{rater}\0{key}".encode()).digest())
    return None


async def choose(
    session: AsyncSession, by: Principal, comparison: Comparison, key: str, choices: Mapping[str, str]
) -> list[Choice]:
    """Store a person's choices; earlier ones about the same are replaced.

    Args:
        choices: criterion → choice; `WHOLE` stands for the whole.
    Raises:
        NotFound: one of the sides does not have it.
        BadRequest: there is no choice, or one about a criterion that one of the sides does not have.
    """
    subject = comparison.subject(key)
    if not choices:
        raise BadRequest("choices: choose for at least one criterion, or for the whole scorecard")
    if unknown := sorted(choices.keys() - set(subject.criteria)):
        raise BadRequest(f"choices: the judges did not both judge by {unknown[0]!r}")
    stored = [
        await _put(session, comparison, subject, criterion, choice, by.name) for criterion, choice in choices.items()
    ]
    sides = {"first": comparison.first, "second": comparison.second}
    place = f"{comparison.run}/{subject.sample_id}"[:300]
    record(session, by, f"{comparison.kind.action}.set", place, **sides, choices=", ".join(choices.values()))
    return stored


async def list_choices(session: AsyncSession, kind: Kind, run: str, asked: PageRequest, body: type[B]) -> Page[B]:
    """Choices of all people, the newest first."""
    query = select(Choice).where(*_of_run(kind, run))
    return await query_page(session, query, (Choice.id,), asked, body.model_validate)


async def choices_of_run(session: AsyncSession, kind: Kind, run: str) -> Sequence[Choice]:
    """All choices of all people, the oldest first."""
    return (await session.scalars(select(Choice).where(*_of_run(kind, run)).order_by(Choice.id))).all()


async def count_choices(session: AsyncSession, comparison: Comparison, rater: str) -> int:
    """Number of a person's choices between two sides."""
    return await session.scalar(select(func.count()).select_from(Choice).where(*comparison.stored(rater))) or 0


def count(choices: Sequence[Choice]) -> ChoiceCounts:
    """Result of some choices, with an interval over samples."""
    wins, losses = (sum(choice.choice == side for choice in choices) for side in _WINS)
    values, clusters = [_WINS.get(choice.choice, 0.5) for choice in choices], [choice.sample_id for choice in choices]
    return ChoiceCounts(
        share=mean_interval(values, clusters=clusters) if choices else None,
        wins=wins,
        equal=len(choices) - wins - losses,
        losses=losses,
        raters=len({choice.rater for choice in choices}),
    )


async def export_csv(session: AsyncSession, kind: Kind, run: str) -> str:
    """All choices, one per line."""
    choices = await choices_of_run(session, kind, run)
    return await write_csv(
        session, run, kind.columns, ([getattr(choice, n) for n in kind.columns] for choice in choices)
    )


async def import_csv(
    session: AsyncSession,
    by: Principal,
    kind: Kind,
    run: str,
    text: bytes,
    find: Callable[[str, str], Awaitable[Comparison]],
) -> int:
    """Store the choices of a CSV file; rows without a rater are the caller's, others' as `imported_rater` names them.

    Args:
        find: the comparison of two sides by their names; raises BadRequest or NotFound.
    Raises:
        BadRequest: a column is missing, or a row names no side, sample, response, criterion or choice.
    """
    comparisons: dict[tuple[str, str], Comparison] = {}
    counts: Counter[str] = Counter()
    for line, row in _read_csv(text, kind):
        sides = (row["first"], row["second"])
        try:
            if sides not in comparisons:
                comparisons[sides] = await find(*sides)
            comparison = comparisons[sides]
            subject = comparison.subject(comparison.key_of(row["sample_id"], row.get("response", "")))
        except (BadRequest, NotFound) as error:
            raise BadRequest(f"line {line}: {error.detail}") from error
        known = {normalise_text(criterion): criterion for criterion in subject.criteria}
        asked = row.get("criterion", WHOLE)
        if (criterion := known.get(normalise_text(asked))) is None:
            raise BadRequest(f"line {line}: the judges did not both judge by {asked!r}")
        rater = imported_rater(by, row["rater"] or by.name)
        counts[rater] += 1
        await _put(session, comparison, subject, criterion, row["choice"], rater)
    record(session, by, f"{kind.action}.import", run, preferences=counts.total(), raters=dict(counts))
    return counts.total()


def imported_rater(by: Principal, name: str) -> str:
    """Name under which a caller stores another person's judgements: an admin that name, anybody else one that tells.

    So a file of others adds to what they gave themselves, and never replaces it.
    """
    suffix = f" (imported by {by.name})"
    if name == by.name or by.may(Right.ADMINISTER) or name.endswith(suffix):
        return name[:_LONGEST_NAME]
    return f"{name[: max(0, _LONGEST_NAME - len(suffix))]}{suffix}"[:_LONGEST_NAME]


def item_digest(item: Item) -> str:
    """Digest of sample, response and criterion, by which judgements of the same are found."""
    return hashlib.sha256(json.dumps([normalise_text(text) for text in item]).encode()).hexdigest()


async def write_csv(session: AsyncSession, run: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV that a spreadsheet opens without running its cells, each with the name of its sample's file.

    Args:
        columns: the first is `sample_id`.
    """
    rows = list(rows)
    names = await file_names(session, run, {str(row[0]) for row in rows})
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([columns[0], "file_name", *columns[1:]])
    writer.writerows(map(guard_cell, [row[0], names.get(str(row[0]), ""), *row[1:]]) for row in rows)
    return out.getvalue()


def _of_run(kind: Kind, run: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return Choice.run == run, Choice.kind == kind.name


async def _put(
    session: AsyncSession, comparison: Comparison, subject: Subject, criterion: str, choice: str, rater: str
) -> Choice:
    item = item_digest(Item(subject.sample_id, subject.response, criterion))
    await session.execute(delete(Choice).where(*comparison.stored(rater), Choice.item == item))
    stored = Choice(
        kind=comparison.kind.name,
        run=comparison.run,
        first=comparison.first,
        second=comparison.second,
        sample_id=subject.sample_id,
        response=subject.response,
        item=item,
        criterion=criterion,
        choice=choice,
        rater=rater,
    )
    session.add(stored)
    await session.flush()
    return stored


def _read_csv(text: bytes, kind: Kind) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells of each row of a CSV file with choices."""
    columns, may_be_empty = kind.columns, ("response", "criterion", "rater")
    try:
        reader = csv.DictReader(io.StringIO(text.decode("utf-8-sig"), newline=""), strict=True)
        header, rows = reader.fieldnames or (), list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadRequest(f"the file is no CSV in UTF-8: {error}") from error
    if absent := [name for name in columns if name not in header and name != "rater"]:
        raise BadRequest(f"line 1: there is no column {absent[0]!r}; the columns are {', '.join(columns)}")
    for line, row in enumerate(rows, start=2):
        cells = {name: unguard_cell(row.get(name) or "") for name in columns}
        if missing := [name for name in columns if not cells[name] and name not in may_be_empty]:
            raise BadRequest(f"line {line}: {missing[0]} is missing; the columns are {', '.join(columns)}")
        if cells["choice"] not in kind.choices:
            raise BadRequest(f"line {line}: choice is {cells['choice']!r}; write {', '.join(kind.choices)}")
        yield line, cells
