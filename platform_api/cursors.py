"""Cursors of pages: opaque to callers, checked when they come back."""

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from rubricworks.platform_api.problems import BadRequest

T = TypeVar("T")
FOREIGN_CURSOR = "cursor: not one that this list gave; leave it out to begin anew"


def encode_cursor(*place: Any) -> str:
    """Cursor that begins after a place: text and numbers."""
    return base64.urlsafe_b64encode(json.dumps(place, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type) -> tuple[Any, ...]:
    """The place of a cursor.

    Raises:
        BadRequest: it is no cursor of this list.
    """
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        if not isinstance(place, list) or [type(one) for one in place] != list(kinds):
            raise ValueError("another list's")
        if any(isinstance(one, int) and abs(one) >= 1 << 63 for one in place):
            raise ValueError("no row has such a number")
        for text in (one for one in place if isinstance(one, str)):
            text.encode()  # half a surrogate pair, which no database takes, is a ValueError
    except (ValueError, binascii.Error, RecursionError) as error:
        raise BadRequest(FOREIGN_CURSOR) from error
    return tuple(place)


def decode_time(text: str) -> datetime:
    """The time in a cursor's place, in UTC.

    Raises:
        BadRequest: it is none, has no zone, or lies outside of the calendar.
    """
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError("no zone")
        return time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise BadRequest(FOREIGN_CURSOR) from error


def row_cursor(cursor: str | None) -> int:
    """Number of the row with which a page begins."""
    if cursor is None:
        return 0
    start: int = decode_cursor(cursor, int)[0]
    if start < 0:
        raise BadRequest(FOREIGN_CURSOR)
    return start


def before_row(cursor: str | None) -> int | None:
    """Number of the row that ended the page before, where the newest row is first; None on the first page."""
    return decode_cursor(cursor, int)[0] if cursor is not None else None


def newest_page(found: Sequence[T], limit: int) -> tuple[list[T], str | None]:
    """Rows of a page, and the cursor of the next one, of rows that were asked for with one more than the limit.

    Args:
        found: rows with an `id`, the newest first.
    """
    rows: list[Any] = list(found[:limit])
    return rows, encode_cursor(rows[-1].id) if len(found) > limit else None


def page_of(found: Sequence[T], cursor: str | None, limit: int) -> tuple[list[T], str | None]:
    """Rows of a page of a list that is whole in memory, and the cursor of the next one; see `row_cursor`."""
    start = row_cursor(cursor)
    end = start + limit
    return list(found[start:end]), encode_cursor(end) if end < len(found) else None
