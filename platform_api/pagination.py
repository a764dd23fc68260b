"""Pages of lists, for the API and for pages of HTML: one kind of cursor, opaque to callers, checked when it comes back.

A cursor holds the place of the last row that was sent: the values of the columns by which the list is ordered, or the
number of the next row of a list that is whole in memory.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.schemas.bodies import Page

T = TypeVar("T")
FOREIGN_CURSOR = "cursor: not one that this list gave; leave it out to begin anew"


class PageRequest(NamedTuple):
    """Page of a list that a caller asks for."""

    cursor: str | None = None
    """`next_cursor` of the page before; None for the first one."""
    limit: int = 50

    @property
    def start(self) -> int:
        """Number of the row with which the page begins, of a list whose rows are numbered."""
        if self.cursor is None:
            return 0
        (start,) = decode_cursor(self.cursor, int)
        if start < 0:
            raise BadRequest(FOREIGN_CURSOR)
        return int(start)


async def query_page(
    session: AsyncSession,
    query: Select[Any],
    order: Sequence[InstrumentedAttribute[Any]],
    asked: PageRequest,
    make: Callable[[Any], T],
    *,
    ascending: bool = False,
) -> Page[T]:
    """A page of the rows of a query.

    Args: order: columns that order the list uniquely; the last row comes first. make: the body of a row.
    """
    place = tuple_(*order)
    if asked.cursor is not None:
        known = decode_cursor(asked.cursor, *(column.type.python_type for column in order))
        query = query.where(place > known if ascending else place < known)
    query = query.order_by(*(column if ascending else column.desc() for column in order)).limit(asked.limit + 1)
    rows = [row if len(row) > 1 else row[0] for row in (await session.execute(query)).all()]
    last = rows[asked.limit - 1] if len(rows) > asked.limit else None
    cursor = encode_cursor(*(getattr(last, column.key) for column in order)) if last is not None else None
    return Page(items=[make(row) for row in rows[: asked.limit]], next_cursor=cursor)


async def sorted_page(
    session: AsyncSession,
    query: Select[Any],
    order: Sequence[InstrumentedAttribute[Any]],
    asked: PageRequest,
    make: Callable[[Any], T],
    *,
    ascending: bool = False,
) -> Page[T]:
    """A page of rows in an order whose first column may be empty; rows without a value come last in both directions."""
    column, *ties = order
    parts = [(query.where(column.is_not(None)), order), (query.where(column.is_(None)), ties)]
    if asked.cursor is not None:
        kinds = [part.type.python_type for part in order]
        try:
            place = decode_cursor(asked.cursor, *kinds)
        except BadRequest:
            place, parts = decode_cursor(asked.cursor, *kinds[1:]), parts[1:]
        known, places = parts[0][0], tuple_(*parts[0][1])
        parts[0] = (known.where(places > place if ascending else places < place), parts[0][1])
    rows: list[Any] = []
    for part, columns in parts:
        if (missing := asked.limit + 1 - len(rows)) > 0:
            sorted_part = part.order_by(*(each if ascending else each.desc() for each in columns))
            rows += await session.scalars(sorted_part.limit(missing))
    cursor = None
    if len(rows) > asked.limit:
        values = [getattr(rows[asked.limit - 1], part.key) for part in order]
        cursor = encode_cursor(*(values if values[0] is not None else values[1:]))
    return Page(items=[make(row) for row in rows[: asked.limit]], next_cursor=cursor)


def list_page(items: Sequence[T], asked: PageRequest) -> Page[T]:
    """A page of a list that is whole in memory."""
    return numbered_page(items[asked.start : asked.start + asked.limit], asked, len(items))


def numbered_page(items: Iterable[T], asked: PageRequest, count: int) -> Page[T]:
    """A page of a list of a known length, from the rows that are on it."""
    end = asked.start + asked.limit
    return Page(items=list(items), next_cursor=encode_cursor(end) if end < count else None)


def encode_cursor(*place: Any) -> str:
    """Cursor that begins after a place: texts, numbers and times."""
    plain = [value.isoformat() if isinstance(value, datetime) else value for value in place]
    return base64.urlsafe_b64encode(json.dumps(plain, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """The place of a cursor.

    Raises:
        BadRequest: it is no cursor of this list.
    """
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        stored = [str if kind is datetime else kind for kind in kinds]
        if not isinstance(place, list) or [type(value) for value in place] != stored:
            raise ValueError("another list's")
        return tuple(_VALUES[kind](value) for kind, value in zip(kinds, place, strict=True))
    except (ValueError, OverflowError, binascii.Error, RecursionError) as error:
        raise BadRequest(FOREIGN_CURSOR) from error


def _number(value: int) -> int:
    if abs(value) >= 1 << 63:
        raise ValueError("no row has such a number")
    return value


def _figure(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("no row has such a figure")
    return value


def _text(value: str) -> str:
    value.encode()  # half a surrogate pair, which no database takes, is a ValueError
    return value


def _time(value: str) -> datetime:
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError("no zone")
    return time.astimezone(UTC)


_VALUES: dict[type, Callable[[Any], Any]] = {int: _number, float: _figure, str: _text, datetime: _time}
