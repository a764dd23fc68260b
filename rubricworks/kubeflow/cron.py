"""Cron of a schedule: the five fields that people write, as the six with seconds that Kubeflow reads.

Kubeflow reads `0 3 * * 1` with a sixth field before it, so that five fields given as they are, or six given by mistake,
would begin at another time, or every second. Days of the week are 0 to 6, Sunday first, or their names; Kubeflow knows
no 7. A cron that names both a day of the month and one of the week begins on either, as everywhere.
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
    """Six fields, the first of them second 0.

    Raises:
        UserError: it is not five fields, or one of them is nothing that can be.
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
    _check_it_ever_comes(cron, fields, values)
    return " ".join(["0", *fields])


def _values(cron: str, at: int, field: str) -> set[int]:
    """Values that a field allows."""
    low, high = _RANGES[at]
    allowed: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UserError(_wrong(cron, at, part))
        first = low if match["from"] == "*" else _number(cron, at, match["from"])
        stepped = match["step"] is not None
        last = first if match["from"] != "*" and not stepped else high
        if match["to"]:
            last = _number(cron, at, match["to"])
        step = int(match["step"]) if stepped else 1
        if (match["from"] == "*" and match["to"]) or last < first or step < 1:
            raise UserError(_wrong(cron, at, part))
        allowed |= set(range(first, last + 1, step))
    return allowed


def _number(cron: str, at: int, text: str) -> int:
    low, high = _RANGES[at]
    number = _NAMES[at].get(text.lower(), int(text) if text.isdecimal() else None)
    if number is None or not low <= number <= high:
        raise UserError(_wrong(cron, at, text))
    return number


def _wrong(cron: str, at: int, part: str) -> str:
    low, high = _RANGES[at]
    hint = "; Sunday is 0" if at == 4 and part == "7" else ""
    return f"cron {cron!r}: {part!r} is no {_FIELDS[at]} ({low} to {high}){hint}; {EXAMPLE}"


def _check_it_ever_comes(cron: str, fields: list[str], values: list[set[int]]) -> None:
    days, months = values[2], values[3]
    any_weekday = fields[4].startswith("*")
    if any_weekday and not any(day <= _LONGEST[month - 1] for day in days for month in months):
        raise UserError(f"cron {cron!r}: no such month has such a day, it would never begin; {EXAMPLE}")
