"""Notations that look like arithmetic and are none: times, dates, ranges, versions.

3:45 is no quotient, 2010-2012 no difference, 05/03/2024 no double fraction. Times and dates become one spelling each;
where a text leaves two readings (3:45 without a half of the day, 05/03/2024), it equals only what leaves the same two.
"""

import math
import re

from rubricworks.verifiers.expression.units import read_unit

_HALF = r"(?P<half>[ap])\.?\s?m\.?"
_CLOCK = re.compile(
    rf"(?P<hour>\d{{1,2}})(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?\s*(?:{_HALF}|h|hrs?|hours?|o'?clock)?"
    rf"|\s*(?:{_HALF.replace('half', 'half_alone')}|o'?clock))",
    re.IGNORECASE,
)
_NAMED_TIMES = {"noon": "time 12:00", "12 noon": "time 12:00", "midnight": "time 0:00", "12 midnight": "time 0:00"}
_RATIO = re.compile(r"\d+(?:\s*:\s*\d+){2,}")

_MONTHS = "january february march april may june july august september october november december"
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS.split())}|sept)\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?\s+)?"
_DATES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}([-/.])(?P<month>\d{{1,2}})\2{_DAY}",
        rf"{_WEEKDAY}{_MONTH}\s*{_DAY}(?:\s*,?\s*{_YEAR})?",
        rf"{_WEEKDAY}(?:the\s+)?{_DAY}\s*(?:of\s+)?{_MONTH}(?:\s*,?\s*{_YEAR})?",
        rf"{_MONTH}\s*,?\s*{_YEAR}",
    )
]
_SEASON = re.compile(r"(?:19|20)(\d\d)/(\d\d)")
_SHORT_DATE = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})")

_CURRENCIES = "$€£¥"
_NUMERAL = rf"[{_CURRENCIES}]?\s?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?%)?"
_SPAN = re.compile(rf"(?P<low>{_NUMERAL})(?P<dash>\s*-{{1,2}}\s*)(?P<high>{_NUMERAL})(?P<unit>(?![\d^!])[^-+=<>\d]*)")
_VARIABLES = frozenset("xyznpqrvw")
"""Letters that are no unit, also with a space before them."""
_FROM_TO = re.compile(r"(?:from\s+)?(?P<low>\S.*?)\s+(?:to|through|until|up to)\s+(?P<high>\S.*)", re.IGNORECASE)
_BETWEEN = re.compile(r"(?:anywhere\s+)?between\s+(?P<low>\S.*?)\s+and\s+(?P<high>\S.*)", re.IGNORECASE)
_UNIT_AFTER = re.compile(rf"{_NUMERAL}\s*(?P<unit>\D*)")
_LITERAL = re.compile(r"v?\d+(?:\.\d+){2,}|\d{3,4}0s|\d+(?:-\d+){2,}", re.IGNORECASE)


def read_lookalike(text: str) -> str | None:
    """One spelling of a time, a date, a ratio of three or more, a version; None for anything else.

    >>> read_lookalike("3:45 pm"), read_lookalike("May 3rd, 2024")
    ('time 15:45', 'date 2024-5-3')
    """
    if not any(character.isdigit() for character in text):
        return _NAMED_TIMES.get(text.lower())
    return _time(text) or _date(text) or _ratio(text) or (f"literal {text.lower()}" if _is_literal(text) else None)


def split_range(text: str, *, in_math: bool) -> tuple[str, str] | None:
    """The two ends of a range, each with the unit; None if the text is none.

    Two numbers with a dash between are a range if the second is no smaller; in mathematics, and where spaces stand
    around the dash, the others are a difference.

    >>> split_range("5-10 cm", in_math=False), split_range("from 3 to 5", in_math=False)
    (('5 cm', '10 cm'), ('3', '5'))
    """
    if match := _SPAN.fullmatch(text):
        low, high, unit = match["low"].strip(), match["high"].strip(), match["unit"]
        symbol = unit.strip()
        is_unit = read_unit(symbol) is not None
        if symbol and not is_unit and not symbol.replace(" ", "").isalpha():
            return None  # 16-4\\pi
        is_product = len(symbol) == 1 and (in_math or unit[0] != " " or symbol in _VARIABLES)  # 3-5x, 3 - 5 x
        is_difference = _size(low) > _size(high) and (
            in_math or match["dash"] != "-" or (0 < len(symbol) < 4 and not is_unit)
        )
        if is_product or is_difference or (in_math and match["dash"] == "--"):
            return None
        if high.endswith("%") and not low.endswith("%"):
            low += "%"
        if low[0] in _CURRENCIES and high[0] not in _CURRENCIES:
            high = low[0] + high
        return f"{low} {symbol}".strip(), f"{high} {symbol}".strip()
    for pattern in (_BETWEEN, _FROM_TO):
        if match := pattern.fullmatch(text):
            low, high = match["low"], match["high"]
            unit_after = _UNIT_AFTER.fullmatch(high) if re.fullmatch(_NUMERAL, low) else None
            return (f"{low} {unit_after['unit']}".strip() if unit_after else low), high
    return None


def _time(text: str) -> str | None:
    if named := _NAMED_TIMES.get(text.lower()):
        return named
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    hour, minute = int(match["hour"]), match["minute"] or "00"
    half = (match["half"] or match["half_alone"] or "").lower()
    if half and not 1 <= hour <= 12:
        return f"literal {text}"
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    known = half or hour == 0 or hour > 12
    seconds = f":{match['second']}" if match["second"] else ""
    return f"time {hour}:{minute}{seconds}" + ("" if known else " of either half")


def _date(text: str) -> str | None:
    for pattern in _DATES:
        if match := pattern.fullmatch(text):
            given = match.groupdict()
            month = given["month"].lower()
            number = int(month) if month.isdigit() else 1 + [name[:3] for name in _MONTHS.split()].index(month[:3])
            day, year = int(given.get("day") or 0), int(given.get("year") or 0)
            if 1 <= number <= 12 and day <= 31:
                return f"date {year or '*'}-{number}-{day or '*'}"
    if match := _SHORT_DATE.fullmatch(text):
        first, second = int(match[1]), int(match[3])
        full_year = match[4] if len(match[4]) == 4 else f"20{match[4]}"
        if first <= 12 < second <= 31:
            first, second = second, first
        if second <= 12 < first <= 31:
            return f"date {full_year}-{second}-{first}"
        return f"date {full_year}-{first}-{second} in either order"
    return None


def _ratio(text: str) -> str | None:
    if not _RATIO.fullmatch(text):
        return None
    numbers = [int(number) for number in text.split(":")]
    divisor = math.gcd(*numbers) or 1
    return "ratio " + ":".join(str(number // divisor) for number in numbers)


def _is_literal(text: str) -> bool:
    """Return True for a version, an address, a decade, a season: 3.1.2, 1990s, 2019/20."""
    season = _SEASON.fullmatch(text)
    return _LITERAL.fullmatch(text) is not None or (season is not None and (int(season[1]) + 1) % 100 == int(season[2]))


def _size(numeral: str) -> float:
    return float(re.sub(r"[^\d.]", "", numeral))
