"""Conversion of a five-field cron to Kubeflow's six fields, which begin with seconds.

Five fields passed unchanged, or six written by mistake, would start runs at another time or every second. Days of the
week are 0 to 6, Sunday first, or names; Kubeflow has no 7. A cron with both a day of the month and a day of the week
fires on either, as usual.
"""

import re

from rubricworks.errors import UserError

_FIELDS = ("minute", "hour", "day of the month", "month", "day of the week")
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: tuple[dict[str, int], ...] = (
    {},
    {},
    {},
    {name: at + 1 for at, name in enumerate(_MONTHS)},
    {name: at for at, name in enumerate(_DAYS)},
)
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PART = re.compile(r"(?P<from>\*|\w+)(?:-(?P<to>\w+))?(?:/(?P<step>\d+))?")

EXAMPLE = "'0 3 * * 1' is Mondays at 03:00"


def kubeflow_cron(cron: str) -> str:
    """Convert a five-field cron to Kubeflow's six fields, with second 0.

    Raises:
        UserError: the cron does not have five fields, or a field is invalid.
    """
    fields = cron.split()
    if cron.strip().startswith("@"):
        raise UserError(f"cron {cron!r}: write the five fields, not a word; {EXAMPLE}")
    if len(fields) == len(_FIELDS) + 1:
        raise UserError(
            f"cron {cron!r} has six fields; give five, minute first: seconds are not chosen "
            f"(did you mean {' '.join(fields[1:])!r}?)"
        )
    if len(fields) != len(_FIELDS):
        raise UserError(f"cron {cron!r} has {len(fields)} fields; give five: {', '.join(_FIELDS)} ({EXAMPLE})")
    values = [_values(cron, at, field) for at, field in enumerate(fields)]
    _check_date_exists(cron, fields, values)
    return " ".join(["0", *fields])


def _values(cron: str, at: int, field: str) -> set[int]:
    """Values allowed by a field."""
    low, high = _RANGES[at]
    allowed: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UserError(_mistake(cron, at, part))
        first = low if match["from"] == "*" else _number(cron, at, match["from"])
        has_step = match["step"] is not None
        last = first if match["from"] != "*" and not has_step else high
        if match["to"]:
            last = _number(cron, at, match["to"])
        step = int(match["step"]) if has_step else 1
        if (match["from"] == "*" and match["to"]) or last < first or step < 1:
            raise UserError(_mistake(cron, at, part))
        allowed |= set(range(first, last + 1, step))
    return allowed


def _number(cron: str, at: int, text: str) -> int:
    low, high = _RANGES[at]
    number = _NAMES[at].get(text.lower(), int(text) if text.isdecimal() else None)
    if number is None or not low <= number <= high:
        raise UserError(_mistake(cron, at, text))
    return number


def _mistake(cron: str, at: int, part: str) -> str:
    low, high = _RANGES[at]
    hint = "; Sunday is 0" if at == 4 and part == "7" else ""
    return f"cron {cron!r}: {part!r} is no {_FIELDS[at]} ({low} to {high}){hint}; {EXAMPLE}"


def _check_date_exists(cron: str, fields: list[str], values: list[set[int]]) -> None:
    days, months = values[2], values[3]
    any_weekday = fields[4].startswith("*")
    if any_weekday and not any(day <= _LONGEST[month - 1] for day in days for month in months):
        raise UserError(f"cron {cron!r}: no such month has such a day, it would never begin; {EXAMPLE}")
