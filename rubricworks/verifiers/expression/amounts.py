"""Amounts: numbers in all their notations, formulas, and what they measure."""

import re
from dataclasses import dataclass
from fractions import Fraction

from rubricworks.verifiers.expression import exact
from rubricworks.verifiers.expression.exact import Quotient, divide, generator, negative, number
from rubricworks.verifiers.expression.formula import TooHard, read_formula
from rubricworks.verifiers.expression.numeric import Computed, computed
from rubricworks.verifiers.expression.units import Unit, split_unit

_NUMBER = re.compile(r"[-+]? ?(?:\d+\.?\d*|\.\d+)")
_GROUPED = re.compile(
    r"([-+]?[$€£¥]?\s?)([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+)((?:\.\d+)?\s*(?:[^\d,;\s][^,;]*)?)"
)
_SCIENTIFIC = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))[eE]([-+]?\d{1,3})")
_REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{(\d+)\}")
_RATIO = re.compile(r"(\d+)\s*:\s*([1-9]\d*)")
_MIXED = re.compile(r"([-+]?)(\d+)\s+(\d+)\s*/\s*(\d+)")
_PERCENT = re.compile(r"(.+?)\s*(?:%|\\?\b(?:percent(?:age)?|pct)|\\text\s*\{\s*(?:%|percent(?:age)?|pct)\s*\})")
_INFINITE = re.compile(r"([-+]?)\s*\\infty")
INFINITY = "\\infty"


@dataclass(frozen=True, slots=True)
class Amount:
    value: Quotient | Computed
    word: str | None = None
    """The letters, case folded, if the answer is nothing but letters: an option, or a product."""
    places: int | None = None
    """Decimals, if the answer is a plain decimal; -1 if decimals stand somewhere inside."""
    unit: Unit | None = None
    other: object = None
    """Another reading, itself an answer: 5m as a product, 1,2 as a list."""


def plain_number(body: str) -> Amount | None:
    """A whole or decimal number."""
    if not _NUMBER.fullmatch(body):
        return None
    body = body.replace(" ", "")
    point = body.find(".")
    if point < 0:
        return Amount(number(int(body)))
    return Amount(number(Fraction(body.removesuffix("."))), places=len(body) - point - 1)


def ungrouped(body: str) -> str:
    """Without the separators of thousands: 1,000.5 and 12 000 m; 0,111 is none."""
    match = _GROUPED.fullmatch(body)
    return match[1] + match[2].replace(",", "").replace(" ", "") + match[3] if match else body


def read_amount(body: str, *, fold: bool) -> Amount:
    """A number or a formula, with or without a unit.

    Raises:
        TooHard: it is neither.
    """
    if amount := plain_number(body):
        return amount
    if match := _INFINITE.fullmatch(body):
        return Amount(endless(match[1] == "-"))
    if match := _PERCENT.fullmatch(body):
        amount = read_amount(match[1].strip("${} "), fold=fold)
        if amount.unit is not None or isinstance(amount.value, Computed):
            raise TooHard("percent of no number")
        return Amount(divide(amount.value, number(100)))
    if match := _RATIO.fullmatch(body):
        return Amount(number(Fraction(int(match[1]), int(match[2]))))
    if match := _SCIENTIFIC.fullmatch(body):
        return Amount(number(Fraction(match[1]) * Fraction(10) ** int(match[2])), places=-1)
    if match := _REPEATING.fullmatch(body):
        return Amount(number(_repeating(*match.groups())))
    if match := _MIXED.fullmatch(body):
        top, bottom = int(match[3]), int(match[4])
        if top >= bottom:
            raise TooHard("no mixed number")
        value = int(match[2]) + Fraction(top, bottom)
        return Amount(number(-value if match[1] == "-" else value))
    if measured := split_unit(body):
        amount = read_amount(measured.number.strip(), fold=fold)
        other = Amount(formula_value(body, fold=fold)) if measured.unit.letter else None
        return Amount(amount.value, places=amount.places, unit=measured.unit, other=other)
    return Amount(formula_value(body, fold=fold), places=-1 if "." in body else None)


def formula_value(body: str, *, fold: bool) -> Quotient | Computed:
    """The exact value, or the formula to compute.

    Raises:
        TooHard: it is neither.
    """
    try:
        return read_formula(body, exact, fold=fold)
    except TooHard:
        return computed(body, fold=fold)


def endless(below: bool) -> Quotient:
    """Infinity, or minus infinity."""
    return negative(generator(INFINITY)) if below else generator(INFINITY)


def _repeating(sign: str, whole: str, first: str, repeated: str) -> Fraction:
    """0.1666... from its parts: 1/6."""
    start = int((whole or "0") + first)
    value = Fraction(int(str(start) + repeated) - start, 10 ** len(first) * (10 ** len(repeated) - 1))
    return -value if sign == "-" else value
