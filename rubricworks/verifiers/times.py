"""Dates and times in Python's formats (RLR³, table 7, `time_verify`)."""

import re
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from rubricworks.verifiers.failure import CannotVerify, shown

_LONGEST = 200
"""Characters of a time or a format."""
_WEEKDAY = re.compile(r"%[aAwuUWV]")
"""Directives that say a day of the week, or need one."""
_NAMED_DAY = re.compile(r"%[aA]")
_HALF = re.compile(r"\s*(?<![a-z])([ap])\s?\.?\s?m\b\.?", re.IGNORECASE)
_PERCENTS = re.compile(r"%%")
_DIRECTIVE = re.compile(r"%(.)")
_FIELDS = {
    "Y": "year", "y": "year", "G": "year", "m": "month", "b": "month", "B": "month", "h": "month", "d": "day",
    "j": "month day", "U": "month", "W": "month", "V": "month", "w": "day", "u": "day", "H": "hour", "I": "hour",
    "p": "half", "M": "minute", "S": "second", "f": "microsecond", "z": "zone", "Z": "zone", "x": "year month day",
    "X": "hour minute second", "c": "year month day hour minute second",
}  # fmt: skip
"""The names of weekdays give none: they only go with a date."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_WORDS_OF_TIMES = {"at", "of", "on", "the", "st", "nd", "rd", "th", "hrs", "hours"}


class _Time(NamedTuple):
    value: datetime
    fields: frozenset[str]
    """Fields that the text gives: a year is no time of day, and a day no date."""
    half_known: bool
    """True if before or after noon is known; False for 3:30 without am or pm."""


def time_verify(predict: object, *, pformat: object, target: object, tformat: object) -> float:
    """1.0 if both texts name the same date and time, else 0.0.

    Each is read by its own format (`datetime.strptime`). Both must give the same fields, so that 18:15 is neither
    18:15:00 nor 18:15 of a day, and a format without any reads nothing. White space around a text does not count;
    where the format has %p, "p.m.", "PM" and "pm" are one, with or without a space before. A weekday must be that of
    its date.

    Args:
        predict: the text that the response gives.
        pformat: its format, copied from the response: directives, and between them signs and words such as `at`.
        target: the right text.
        tformat: the format of the target; no weekdays (the paper's rule: a date says them already).
    Raises:
        CannotVerify: the target does not fit its format, or the format holds a weekday, or no directive.

    >>> time_verify("6:15 p.m.", pformat="%I:%M %p", target="18:15", tformat="%H:%M")
    1.0
    """
    if not isinstance(target, str) or not isinstance(tformat, str):
        raise CannotVerify(f"target {shown(target)} with format {shown(tformat)}: both must be text")
    wanted = _target_time(target, tformat)
    if not isinstance(predict, str) or not isinstance(pformat, str) or _has_words(pformat):
        return 0.0
    time = _read(predict, pformat)
    if time is None or time.fields != wanted.fields or time.value != wanted.value:
        return 0.0
    # 3:30 on a face may be 03:30, and is neither 3:30 am nor 3:30 pm.
    return float(time.half_known == wanted.half_known or "%p" not in f"{pformat}{tformat}")


@lru_cache(maxsize=1024)
def _target_time(target: str, tformat: str) -> _Time:
    if _WEEKDAY.search(_PERCENTS.sub("", tformat)):
        raise CannotVerify(f"time format {shown(tformat)}: weekdays are no targets; leave them out")
    if tformat and not _fields(tformat):
        raise CannotVerify(f"time format {shown(tformat)} has no directive such as %H or %Y")
    if (time := _read(target, tformat)) is None:
        raise CannotVerify(f"target {shown(target)} does not fit its format {shown(tformat)}")
    return time


@lru_cache(maxsize=1024)
def _has_words(form: str) -> bool:
    """Return True if a format holds words of a sentence, which may say anything: `not %H:%M`."""
    literal = _DIRECTIVE.sub(" ", _PERCENTS.sub(" ", form)).replace("o'clock", " ")
    return any(word.isascii() and word.lower() not in _WORDS_OF_TIMES for word in _WORD.findall(literal))


@lru_cache(maxsize=1024)
def _fields(form: str) -> frozenset[str]:
    directives = _DIRECTIVE.findall(_PERCENTS.sub("", form))
    return frozenset(field for letter in directives for field in _FIELDS.get(letter, "").split()) - {"half"}


def _read(text: str, form: str) -> _Time | None:
    if not text or len(text) > _LONGEST or len(form) > _LONGEST or not _fields(form):
        return None
    text, form = text.strip(), form.strip()
    has_half = "%p" in form
    if has_half:
        form = re.sub(r"\s*%p", " %p", form)
        text = _HALF.sub(r" \1m", text)
        # 6:15 PM read by %H would be a quarter past six in the morning.
        time = _strptime(text, form.replace("%H", "%I")) or _strptime(text, form)
        if time and "%H" in form and (time.hour >= 12) != ("pm" in text.lower()):
            return None
    else:
        time = _strptime(text, form)
    if time is None or (_NAMED_DAY.search(_PERCENTS.sub("", form)) and time.strftime("%a").lower() not in text.lower()):
        return None
    return _Time(time, _fields(form), has_half or "%I" not in form)


def _strptime(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except (ValueError, OverflowError, re.error):  # re: a directive stands twice
        return None
