"""Dates and times in Python's formats (RLR³, table 7, `time_verify`)."""

import re
from datetime import datetime
from functools import lru_cache

from rubricworks.verifiers.failure import CannotVerify, shown

_LONGEST = 200
"""Characters of a time or a format."""
_WEEKDAY = re.compile(r"%[aAwuUWV]")
"""Directives that say a day of the week, or need one."""
_HALF = re.compile(r"\s*(?<![a-z])([ap])\s?\.?\s?m\b\.?", re.IGNORECASE)
_PERCENTS = re.compile(r"%%")


def time_verify(predict: object, *, pformat: object, target: object, tformat: object) -> float:
    """1.0 if both texts name the same date and time, else 0.0.

    Each is read by its own format (`datetime.strptime`); what a format leaves out is 1900-01-01 00:00, so that a time
    alone never equals a time with a date. White space around a text does not count; where the format has %p, "p.m.",
    "PM" and "pm" are one, with or without a space before.

    Args:
        predict: the text that the response gives.
        pformat: its format, copied from the response.
        target: the right text.
        tformat: the format of the target; no weekdays (the paper's rule: a date says them already).
    Raises:
        CannotVerify: the target does not fit its format, or the format holds a weekday.

    >>> time_verify("6:15 p.m.", pformat="%I:%M %p", target="18:15", tformat="%H:%M")
    1.0
    """
    wanted = _wanted(target, tformat) if isinstance(target, str) and isinstance(tformat, str) else None
    if wanted is None:
        raise CannotVerify(f"target {shown(target)} with format {shown(tformat)}: both must be text")
    if not isinstance(predict, str) or not isinstance(pformat, str):
        return 0.0
    return float(_read(predict, pformat) == wanted)


@lru_cache(maxsize=1024)
def _wanted(target: str, tformat: str) -> datetime:
    if _WEEKDAY.search(_PERCENTS.sub("", tformat)):
        raise CannotVerify(f"time format {shown(tformat)}: weekdays are no targets; leave them out")
    if (time := _read(target, tformat)) is None:
        raise CannotVerify(f"target {shown(target)} does not fit its format {shown(tformat)}")
    return time


def _read(text: str, form: str) -> datetime | None:
    if not text or len(text) > _LONGEST or len(form) > _LONGEST:
        return None
    if "%p" in form:
        form = re.sub(r"\s*%p", " %p", form)
        text = _HALF.sub(r" \1m", text)
    try:
        return datetime.strptime(text.strip(), form.strip())
    except (ValueError, OverflowError, re.error):  # re: a directive stands twice
        return None
