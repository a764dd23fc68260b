"""Decimals that stand for other numbers: 0.333333 is what 1/3 is rounded to."""

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from rubricworks.verifiers.expression.exact import Polynomial, Quotient
from rubricworks.verifiers.expression.formula import Rational, TooHard

ENOUGH_PLACES = 6
"""A decimal of so many places stands for the number that it is rounded or cut from: 0.333333 is 1/3, 0.333 is not."""
_CONTEXT = Context(prec=60)
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798")
_MOST_DIGITS = 40
_LARGEST = 30
"""Digits before the point."""


def is_rounded(value: Decimal, given: Decimal, places: int) -> bool:
    """Return True if a value, rounded either way or cut to as many places, is the given decimal."""
    if places > _MOST_DIGITS:
        raise TooHard("many digits")
    if not value.is_finite() or value.adjusted() > _LARGEST or given == 0:
        return False
    last = Decimal(1).scaleb(-places)
    roundings = (ROUND_HALF_EVEN, ROUND_HALF_UP, ROUND_DOWN)
    return any(value.quantize(last, rounding, _CONTEXT) == given for rounding in roundings)


def decimal_of(value: Quotient) -> Decimal:
    """A constant to sixty digits.

    Raises:
        TooHard: it has variables, or is not real.
    """
    return _CONTEXT.divide(_sum(value.top), _sum(value.bottom))


def is_short_decimal(value: Quotient) -> bool:
    """A rational number that needs no rounding."""
    if set(value.top) - {()} or set(value.bottom) != {()}:
        return False
    denominator = Fraction(Fraction(value.top.get((), 0)) / value.bottom[()]).denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    return denominator == 1


def _sum(polynomial: Polynomial) -> Decimal:
    total = Decimal(0)
    for term, factor in polynomial.items():
        product = _fraction(factor)
        for name, exponent in term:
            product = _CONTEXT.multiply(product, _CONTEXT.power(_generator(name), _fraction(exponent)))
        total = _CONTEXT.add(total, product)
    return total


def _generator(name: str) -> Decimal:
    if name == "\\pi":
        return _PI
    if name == "e":
        return _CONTEXT.exp(Decimal(1))
    if not name.isdigit():
        raise TooHard(f"{name} is not a real number")
    return Decimal(name)


def _fraction(value: Rational) -> Decimal:
    return _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))
