"""Formulas by their values at points, to fifty digits: functions, roots of sums, e^x and more beyond exact arithmetic.

Two formulas that differ anywhere differ at a random point, and by far more than the last digits; two that agree to
forty digits at several points are the same. A point where one of them is not real lies outside its domain and says
nothing, unless i is written out. Sizes are limited, so that nothing here takes more than milliseconds.
"""

import random
import threading
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rubricworks.verifiers.expression import exact
from rubricworks.verifiers.expression.exact import Quotient
from rubricworks.verifiers.expression.formula import Rational, TooHard, TooLarge, read_formula
from rubricworks.verifiers.failure import needed

Value = Any
"""A whole number or fraction, kept exact, or an mpmath number."""
_DIGITS = 50
_RANGES = ((0.3, 0.9), (1.1, 2.9), (-2.9, -1.1), (2.1, 8.9), (-0.9, -0.3))
_ENOUGH_POINTS = 2
_LARGEST_LOGARITHM = 10**6
_LARGEST_ANGLE = 10**6
_SAME = 40
"""Digits in which equal values agree."""
_MPMATH_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "log": "log10", "lg": "log10"}
_EXPONENTIAL = ("exp", "sinh", "cosh", "tanh")
_LOCAL = threading.local()


@dataclass(frozen=True, slots=True)
class NumericFormula:
    """A formula that is known by its values."""

    text: str
    fold: bool
    imaginary: bool
    """i is written out."""
    constant: bool

    def at(self, point: int) -> Value:
        return read_formula(self.text, Numbers(point), fold=self.fold)


class Numbers:
    """Arithmetic for the reader of formulas, each variable a random number of its own at each point."""

    def __init__(self, point: int) -> None:
        self.point = point
        self.names: set[str] = set()

    def number(self, value: Rational) -> Value:
        return value

    def generator(self, name: str) -> Value:
        self.names.add(name)
        context = _context()
        if name == "\\pi":
            return +context.pi
        if name == "e":
            return +context.e
        return context.mpc(0, 1) if name == "i" else context.mpf(_coordinate(name, self.point))

    def rational(self, value: Value) -> Rational | None:
        return value if isinstance(value, int | Fraction) else None

    def negative(self, value: Value) -> Value:
        return -value

    def add(self, a: Value, b: Value) -> Value:
        return a + b if _is_rational(a, b) else _limited(_real(a) + _real(b))

    def multiply(self, a: Value, b: Value) -> Value:
        return a * b if _is_rational(a, b) else _limited(_real(a) * _real(b))

    def divide(self, a: Value, b: Value) -> Value:
        if b == 0:
            raise TooHard("division by zero")
        return Fraction(a) / b if _is_rational(a, b) else _limited(_real(a) / _real(b))

    def power(self, base: Value, exponent: Value) -> Value:
        if base == 0:
            if _is_rational(exponent) and exponent > 0:
                return 0
            raise TooHard("a power of zero")
        if _is_rational(base) and isinstance(exponent, int) and abs(exponent) <= 64:
            power = Fraction(base) ** exponent
            return power.numerator if power.denominator == 1 else power
        context, base, exponent = _context(), _real(base), _real(exponent)
        if abs(exponent) * (abs(context.log(abs(base))) + 1) > _LARGEST_LOGARITHM:
            raise TooLarge("a huge power")
        return _limited(context.power(base, exponent))

    def root(self, value: Value, degree: int) -> Value:
        context, value = _context(), _real(value)
        if value == 0:
            return 0
        if degree % 2 and context.im(value) == 0 and context.re(value) < 0:
            return -context.root(-value, degree)
        return context.root(value, degree)

    def factorial(self, value: Value) -> Value:
        if not isinstance(value, int) or value < 0:
            raise TooHard("factorial of something else than a whole number")
        if value > 5000:
            raise TooLarge("factorial of a large number")
        return exact.rational(exact.factorial(exact.number(value)))

    def size(self, value: Value) -> Value:
        return abs(value)

    def degrees(self, value: Value) -> Value:
        return _real(value) * _context().pi / 180

    def function(self, name: str, value: Value, base: Value | None = None) -> Value:
        context, value = _context(), _real(value)
        if abs(value) > (_LARGEST_LOGARITHM if name in _EXPONENTIAL else _LARGEST_ANGLE):
            raise TooLarge(f"{name} of a large number")
        if name in ("ln", "log", "lg") and value == 0:
            raise TooHard("logarithm of zero")
        if base is not None:
            return self.divide(context.ln(value), context.ln(_real(base)))
        try:
            return _limited(getattr(context, _MPMATH_NAMES.get(name, name))(value))
        except (ValueError, ZeroDivisionError):
            raise TooHard(f"{name} has no value there") from None


def numeric_formula(text: str, *, fold: bool) -> NumericFormula:
    """The formula, once it is known that it can be computed.

    Raises:
        TooHard: it cannot.
    """
    numbers = Numbers(1)
    read_formula(text, numbers, fold=fold)
    return NumericFormula(text, fold, "i" in numbers.names, numbers.names <= {"\\pi", "e", "i"})


def same_values(a: NumericFormula | Quotient, b: NumericFormula | Quotient) -> bool | None:
    """Return True if the two agree wherever both are defined, None if that is nearly nowhere."""
    constant, imaginary = _is_constant(a) and _is_constant(b), _is_imaginary(a) or _is_imaginary(b)
    agreed = 0
    for point in range(1 if constant else len(_RANGES)):
        try:
            x, y = _real(_at(a, point)), _real(_at(b, point))
            if not imaginary and not (_is_real(x) and _is_real(y)):
                continue
            if not _agree(x, y) and not _cancels(a, b, point, abs(x - y)):
                return False
        except (TooHard, ZeroDivisionError, OverflowError, ValueError):
            continue
        agreed += 1
    return True if agreed >= (1 if constant else _ENOUGH_POINTS) else None


def _agree(x: Value, y: Value) -> bool:
    return bool(abs(x - y) <= max(abs(x), abs(y)) * _context().mpf(10) ** -_SAME)


def _cancels(a: NumericFormula | Quotient, b: NumericFormula | Quotient, point: int, difference: Value) -> bool:
    """Return True if a tiny difference is lost digits alone, as of sin(pi) and 0: it shrinks with more digits."""
    context = _context()
    if difference > context.mpf(10) ** -_SAME:
        return False
    context.dps = 2 * _DIGITS
    try:
        left = abs(_real(_at(a, point)) - _real(_at(b, point)))
        return bool(left <= min(difference * context.mpf(10) ** -(_DIGITS // 2), context.mpf(10) ** (10 - 2 * _DIGITS)))
    finally:
        context.dps = _DIGITS


def decimal_value(value: NumericFormula) -> Decimal:
    """A constant that is real.

    Raises:
        TooHard: it is not.
    """
    number = _real(value.at(0))
    if not value.constant or not _is_real(number):
        raise TooHard("no real number")
    return Decimal(_context().nstr(_context().re(number), _SAME))


def _at(value: NumericFormula | Quotient, point: int) -> Value:
    if isinstance(value, NumericFormula):
        return value.at(point)
    numbers = Numbers(point)
    top, bottom = (
        sum((_term(term, factor, numbers) for term, factor in polynomial.items()), _real(0)) for polynomial in value
    )
    return numbers.divide(top, bottom)


def _term(term: exact.Term, factor: Rational, numbers: Numbers) -> Value:
    product = _real(factor)
    for name, exponent in term:
        base = int(name) if name.isdigit() else numbers.generator(name)
        product *= _context().power(_real(base), _real(exponent))
    return product


def _is_constant(value: NumericFormula | Quotient) -> bool:
    return value.constant if isinstance(value, NumericFormula) else not exact.variables(value)


def _is_imaginary(value: NumericFormula | Quotient) -> bool:
    if isinstance(value, NumericFormula):
        return value.imaginary
    return any(name == "i" for polynomial in value for term in polynomial for name, _ in term)


def _is_real(value: Value) -> bool:
    context = _context()
    return bool(abs(context.im(value)) <= abs(value) * context.mpf(10) ** -_SAME)


def _is_rational(*values: Value) -> bool:
    return all(isinstance(value, int | Fraction) and exact.bits(value) <= 2000 for value in values)


def _real(value: Value) -> Value:
    """Convert to an mpmath number."""
    context = _context()
    if isinstance(value, int | Fraction):
        return context.mpf(value.numerator) / value.denominator
    return value


def _limited(value: Value) -> Value:
    if value != 0 and not -_LARGEST_LOGARITHM * 4 < _context().mag(value) < _LARGEST_LOGARITHM * 4:
        raise TooLarge("huge or tiny numbers")
    return value


def _context() -> Any:
    """mpmath keeps its precision in an object; each thread has one."""
    if not hasattr(_LOCAL, "context"):
        _LOCAL.context = needed("mpmath", "mpmath").MPContext()
        _LOCAL.context.dps = _DIGITS
    return _LOCAL.context


@lru_cache(maxsize=4096)
def _coordinate(name: str, point: int) -> float:
    low, high = _RANGES[point]
    return random.Random(f"{name} {point}").uniform(low, high)
