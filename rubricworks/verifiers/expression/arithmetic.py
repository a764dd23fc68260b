"""Arithmetic on values: exact if they are rational and short, else to a hundred digits."""

import math
import operator
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

from rubricworks.verifiers.expression.tokens import Outside, TooHard, TooLarge
from rubricworks.verifiers.failure import needed

Value = Any
"""A whole number or fraction, kept exact, or an mpmath number."""
_LARGEST_LOGARITHM = _LARGEST_ANGLE = 10**6
_MOST_BITS, _FEW_BITS = 60_000, 4_000
"""Bits of one exact number: a whole one up to 5,000!, multiplied in microseconds, and a fraction."""
_MPMATH_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "log": "log10", "lg": "log10"}
_EXPONENTIAL = ("exp", "sinh", "cosh", "tanh", "coth")
_LOCAL = threading.local()
DIGITS, SAME = 120, 105
"""Digits of a value, and those in which equal values agree."""


def is_exact(*numbers: Value) -> bool:
    return all(isinstance(number, int | Fraction) for number in numbers)


def is_real(number: Value) -> bool:
    return is_exact(number) or bool(abs(number.imag) <= abs(number) * mp_context().mpf(10) ** -SAME)


def alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Both exact, or both mpmath numbers."""
    return (a, b) if is_exact(a) == is_exact(b) else (number_of(a), number_of(b))


def number_of(number: Value) -> Value:
    """Convert to an mpmath number."""
    return mp_context().mpf(number.numerator) / number.denominator if is_exact(number) else number


def added(a: Value, b: Value) -> Value:
    return limited(operator.add(*alike(a, b)))


def multiplied(a: Value, b: Value) -> Value:
    return limited(operator.mul(*alike(a, b)))


def _divided(a: Value, b: Value) -> Value:
    if b == 0:
        raise TooHard("division by zero")
    a, b = alike(a, b)
    return Fraction(a) / b if is_exact(a) else a / b


def _power(is_real_point: bool, base: Value, exponent: Value) -> Value:
    context = mp_context()
    if base == 0:
        if is_exact(exponent) and exponent > 0:
            return 0
        raise TooHard("a power of zero")
    most = _MOST_BITS if isinstance(base, int) else _FEW_BITS
    if isinstance(exponent, int) and is_exact(base) and abs(exponent) * _bits(base) <= most:
        return Fraction(base) ** exponent
    if isinstance(exponent, Fraction) and exponent.denominator <= 12:
        root = _exact_root(base, exponent.denominator)
        if root is not None:
            return _power(is_real_point, root, exponent.numerator)
    if is_real_point and not isinstance(exponent, int) and number_of(base).real < 0:
        return _real_power(number_of(base), exponent)
    if abs(number_of(exponent)) * (abs(context.log(abs(number_of(base)))) + 1) > _LARGEST_LOGARITHM:
        raise TooLarge("a huge power")
    return context.power(number_of(base), number_of(exponent))


def _real_power(base: Value, exponent: Value) -> Value:
    """x^{2/3} of a negative number, as its odd root gives it."""
    if not isinstance(exponent, Fraction) or exponent.denominator % 2 == 0:
        raise Outside("a broken power of a negative number")
    size = mp_context().power(-base, number_of(exponent))
    return -size if exponent.numerator % 2 else size


def _root(is_real_point: bool, radicand: Value, degree: int) -> Value:
    if (known := _exact_root(radicand, degree)) is not None:
        return known
    number = number_of(radicand)
    if number.imag == 0 and number.real < 0:
        if degree % 2:
            return -mp_context().root(-number, degree)
        if is_real_point:
            raise Outside("a root of a negative number")
    return mp_context().root(number, degree)


def _exact_root(radicand: Value, degree: int) -> Value | None:
    """The root of a rational number, if it is rational too, and real."""
    if not is_exact(radicand) or _bits(radicand) > 150 or (radicand < 0 and degree % 2 == 0):
        return None
    top, bottom = (int(mp_context().nint(mp_context().root(part, degree))) for part in abs(radicand).as_integer_ratio())
    root = Fraction(top, bottom)
    return None if root**degree != abs(radicand) else limited(-root if radicand < 0 else root)


def _factorial(n: Value) -> Value:
    if isinstance(n, int) and n > 5000:
        raise TooLarge("factorial of a large number")
    if isinstance(n, int) and n >= 0:
        return math.factorial(n)
    if abs(n) > 1000:
        raise TooHard("factorial of something else than a whole number")
    return mp_context().gamma(number_of(n) + 1)


def _binomial(n: Value, k: Value) -> Value:
    if isinstance(n, int) and isinstance(k, int):
        if n > 2000:
            raise TooLarge("a binomial of large numbers")
        return math.comb(n, k)
    return mp_context().binomial(number_of(n), number_of(k))


def _rounded(name: str) -> Callable[[Value], Value]:
    def rounded(number: Value) -> Value:
        """A whole number, where the digits settle it."""
        if is_exact(number):
            return math.floor(number) if name == "floor" else math.ceil(number)
        nearest = mp_context().nint(number.real)
        if not is_real(number) or abs(number) > 10**20 or abs(number - nearest) < mp_context().mpf(10) ** -25:
            raise TooHard("rounding that digits do not settle")
        return int(getattr(mp_context(), name)(number.real))

    return rounded


OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": lambda *parts: reduce(added, parts), "*": lambda *parts: reduce(multiplied, parts),
    "-": operator.neg, "/": lambda a, b: limited(_divided(a, b)), "!": _factorial, "binom": _binomial, "abs": abs,
    "floor": _rounded("floor"), "ceil": _rounded("ceil"), "deg": lambda angle: number_of(angle) * mp_context().pi / 180,
}  # fmt: skip


def _function(is_real_point: bool, name: str, argument: Value, base: Value | None) -> Value:
    context, number = mp_context(), number_of(argument)
    if abs(number) > (_LARGEST_LOGARITHM if name in _EXPONENTIAL else _LARGEST_ANGLE):
        raise TooLarge(f"{name} of a large number")
    if name in ("ln", "log", "lg") and (number == 0 or (is_real_point and number.real < 0)):
        raise Outside("logarithm of zero, or of a negative number")
    if base is not None:
        return _divided(context.ln(number), context.ln(number_of(base)))
    result = getattr(context, _MPMATH_NAMES.get(name, name))(number)
    if is_real_point and not is_real(result):
        raise Outside(f"{name} is not real there")
    return result


AT_POINT: dict[str, Callable[..., Value]] = {"fn": _function, "root": _root, "^": _power}


def _bits(number: int | Fraction) -> int:
    return number.numerator.bit_length() + number.denominator.bit_length()


def limited(number: Value) -> Value:
    """The number in its simplest kind: whole, a short fraction, digits.

    Raises:
        TooLarge: it is huge or tiny.
    """
    if is_exact(number):
        if number.denominator == 1 and _bits(number) <= _MOST_BITS:
            return int(number)
        return number if _bits(number) <= _FEW_BITS else number_of(number)
    if number != 0 and not -_LARGEST_LOGARITHM * 4 < mp_context().mag(number) < _LARGEST_LOGARITHM * 4:
        raise TooLarge("huge or tiny numbers")
    return number


def mp_context() -> Any:
    """mpmath keeps its precision in an object; each thread has one."""
    if not hasattr(_LOCAL, "context"):
        _LOCAL.context = needed("mpmath", "mpmath").MPContext()
        _LOCAL.context.dps = DIGITS
    return _LOCAL.context
