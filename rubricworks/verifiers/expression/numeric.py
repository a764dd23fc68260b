"""Formulas by their values at random points: exact where only rational numbers occur, else to a hundred digits.

Two formulas that differ anywhere differ at a random point, and by far more than the last digits; two that agree to a
hundred digits at several points are the same. Each variable is a random number of its own, of either sign. A point
where a root, a power or a logarithm leaves the real numbers is outside the domain, unless i is written out or no real
point is inside: then the points are complex. An atom (an applied function, an integral without a closed value) has a
random value that depends on its name, its arguments and the point only. Nothing here takes more than milliseconds.
"""

import math
import operator
import random
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

from rubricworks.verifiers.expression.tokens import Outside, TooHard, TooLarge
from rubricworks.verifiers.expression.trees import (
    BINDING_KINDS,
    CALCULUS,
    CONSTANTS,
    OPAQUE,
    Tree,
    is_branching,
    kinds_of,
    symbols,
)
from rubricworks.verifiers.failure import needed

Value = Any
"""A whole number or fraction, kept exact, or an mpmath number."""
NO_VALUE = (TooHard, ArithmeticError, ValueError)
_DIGITS, _SAME = 120, 105
"""Digits of a value, and those in which equal values agree."""
_DECIMAL_DIGITS = 60
_RANGES, _DENOMINATOR = ((0.3, 0.9), (1.1, 2.9), (2.1, 8.9)), 10_007
_ALL_POSITIVE, _POINTS, _COMPLEX_POINTS = 2, 14, 5
_FEW, _ENOUGH = 3, 2
"""Points that a formula without roots, logarithms and the like is compared at, and how many must be inside a domain."""
_LARGEST_LOGARITHM = _LARGEST_ANGLE = 10**6
_MOST_BITS, _FEW_BITS = 60_000, 4_000
"""Of one exact number: a whole one up to 5,000!, multiplied in microseconds, and a fraction."""
_MPMATH_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "log": "log10", "lg": "log10"}
_EXPONENTIAL = ("exp", "sinh", "cosh", "tanh", "coth")
_MANY: dict[str, Callable[..., Any]] = {"max": max, "min": min, "gcd": math.gcd, "lcm": math.lcm}
_LOCAL = threading.local()


class Point:
    """A value for each variable. A "real" point leaves the domain where a value would become complex."""

    def __init__(self, number: int, kind: str, moved: str | None = None) -> None:
        self.number, self.kind = number, kind
        self.moved = moved
        """The variable, or the unknown function "f(", that has another value than at the point of this number."""
        self.bound: dict[str, Value] = {}

    def coordinate(self, name: str) -> Value:
        if name in self.bound:
            return self.bound[name]
        if name in ("\\pi", "e"):
            return +(_context().pi if name == "\\pi" else _context().e)
        if name == "i":
            if self.kind == "real":
                raise TooHard("not real")
            return _context().mpc(0, 1)
        seed = f"{name} moved" if name == self.moved else name
        real = _coordinate(seed, self.number)
        return (
            real
            if self.kind != "complex"
            else number_of(real) + _context().mpc(0, number_of(_coordinate(f"{seed} i", self.number)))
        )


def same_values(a: Tree, b: Tree) -> bool | None:
    """Return True if the two agree wherever both are defined, None if that is nearly nowhere."""
    names = symbols(a) | symbols(b)
    if not names - CONSTANTS:
        return _agree_at(a, b, [Point(0, "any")], 1) and _agree_in_more_digits(a, b)
    count = _POINTS if is_branching(a) or is_branching(b) else _FEW
    points = [Point(number, "any") for number in range(_FEW)]
    if "i" not in names:
        points = []
        outcome = _agree_at(a, b, [Point(number, "real") for number in range(count)], _ENOUGH)
        if outcome is not None:
            return outcome
    return _agree_at(a, b, points + [Point(number, "complex") for number in range(_COMPLEX_POINTS)], _FEW)


def value(tree: Tree, point: Point) -> Value:
    """The value at a point.

    Raises:
        TooHard: it has none there.
        TooLarge: it is huge, or takes long.
    """
    kind = tree[0]
    if kind in ("n", "digits"):
        return tree[1]
    if kind == "s":
        return point.coordinate(tree[1])
    if kind in BINDING_KINDS:
        return _opened(tree, point)
    if kind in ("diff", "opaque diff"):
        return _atom(f"diff {tree[1]} {tree[2]}", point, [point.coordinate(tree[1]), value(tree[3], point)])
    parts = [value(part, point) if isinstance(part, tuple) else part for part in tree[1:]]
    if kind == "call":
        return _applied(parts[0], point, parts[1:])
    if kind in ("floor", "ceil") and symbols(tree) - CONSTANTS:
        return _atom(kind, point, parts)
    if kind in _AT_POINT:
        return _limited(_AT_POINT[kind](point, *parts))
    return _OPERATIONS[kind](*parts)


def constant_value(tree: Tree) -> Value:
    """The value of a formula without variables.

    Raises:
        TooHard: it has none, or an atom of unknown value.
    """
    if not kinds_of(tree).isdisjoint(CALCULUS | OPAQUE | {"call"}):
        raise TooHard("an atom")
    return value(tree, Point(0, "any"))


def decimal_value(tree: Tree) -> Decimal:
    """A constant that is real.

    Raises:
        TooHard: it is not.
    """
    number = number_of(constant_value(tree))
    if not is_real(number):
        raise TooHard("no real number")
    return Decimal(_context().nstr(number.real, _DECIMAL_DIGITS))


def is_exact(*numbers: Value) -> bool:
    return all(isinstance(number, int | Fraction) for number in numbers)


def is_real(number: Value) -> bool:
    return is_exact(number) or bool(abs(number.imag) <= abs(number) * _context().mpf(10) ** -_SAME)


def agree(x: Value, y: Value) -> bool:
    x, y = _alike(x, y)
    return x == y if is_exact(x) else bool(abs(x - y) <= max(abs(x), abs(y)) * _context().mpf(10) ** -_SAME)


def _alike(a: Value, b: Value) -> tuple[Value, Value]:
    """Both exact, or both mpmath numbers."""
    return (a, b) if is_exact(a) == is_exact(b) else (number_of(a), number_of(b))


def number_of(number: Value) -> Value:
    """Convert to an mpmath number."""
    return _context().mpf(number.numerator) / number.denominator if is_exact(number) else number


def depends_on(tree: Tree, name: str) -> bool:
    """Return True if the value changes with a variable, or with the unknown function "f("."""
    for number in range(4):
        try:
            before, after = (value(tree, Point(number, "any", moved)) for moved in (None, name))
        except NO_VALUE:
            continue
        if not agree(before, after) and abs(number_of(before) - number_of(after)) > _context().mpf(10) ** -_SAME:
            return True
    return False


def values_at(a: Tree, b: Tree, point: Point) -> tuple[Value, Value] | bool | None:
    """The two values; None if they are not known, False if only one of the two is inside its domain.

    \\sqrt{ab} and \\sqrt a\\sqrt b are taken for the same: where two variables are negative nothing is decided.
    """
    values: list[Value] = []
    outside = 0
    for tree in (a, b):
        try:
            number = value(tree, point)
        except Outside:
            outside += 1
        except NO_VALUE:
            return None
        else:
            if point.kind == "real" and not is_real(number):
                outside += 1
            values.append(number)
    if outside == 1:
        names = {name for name in symbols(a) | symbols(b) if name not in CONSTANTS and not name.endswith("(")}
        return None if sum(point.coordinate(name) < 0 for name in names) > 1 else False
    return None if outside else (values[0], values[1])


def _agree_at(a: Tree, b: Tree, points: list[Point], enough: int) -> bool | None:
    agreed = 0
    for point in points:
        values = values_at(a, b, point)
        if values is None:
            continue
        if isinstance(values, bool):
            return False
        x, y = values
        if not agree(x, y) and not _cancels(a, b, point, x, y):
            return False
        agreed += 1
    return True if agreed >= enough else None


def _agree_in_more_digits(a: Tree, b: Tree) -> bool:
    """Return False for 1 and tanh 200, which part late."""
    if "digits" in kinds_of(a) | kinds_of(b):
        return True
    context = _context()
    context.dps = 3 * _DIGITS
    try:
        x, y = _alike(*(value(tree, Point(0, "any")) for tree in (a, b)))
        return is_exact(x) or bool(abs(x - y) <= max(abs(x), abs(y), 1) * context.mpf(10) ** (-3 * _SAME))
    finally:
        context.dps = _DIGITS


def _cancels(a: Tree, b: Tree, point: Point, x: Value, y: Value) -> bool:
    """Return True if a tiny difference is lost digits alone, as of sin(pi) and 0: it shrinks with more digits."""
    context = _context()
    difference = 1 if is_exact(x, y) else abs(number_of(x) - number_of(y))
    if difference > context.mpf(10) ** -_SAME:
        return False
    context.dps = 2 * _DIGITS
    try:
        left = abs(number_of(value(a, point)) - number_of(value(b, point)))
        return bool(left <= min(difference * context.mpf(10) ** -(_DIGITS // 2), context.mpf(10) ** (10 - 2 * _DIGITS)))
    finally:
        context.dps = _DIGITS


def _opened(tree: Tree, point: Point) -> Value:
    """An atom by its bounds and its body, whatever the bound variable is called."""
    kind, name, *bounds, body = tree
    parts = [value(bound, point) if isinstance(bound, tuple) else str(bound) for bound in bounds]
    outside = point.bound
    for number in (1, 2):
        point.bound = {**outside, name: _coordinate(f"bound {len(outside)}", number)}
        try:
            parts.append(value(body, point))
        finally:
            point.bound = outside
    return _atom(kind.removeprefix("opaque "), point, parts)


def _applied(name: str, point: Point, arguments: list[Value]) -> Value:
    """An unknown function is an atom; of numbers, the largest and the like are known."""
    if name in _MANY:
        if all(isinstance(number, int) for number in arguments) or (is_exact(*arguments) and name in ("max", "min")):
            return _MANY[name](*arguments)
        arguments = sorted(arguments, key=lambda number: str(number_of(number)))
    return _atom(name, point, arguments)


def _atom(name: str, point: Point, arguments: list[Value]) -> Value:
    """A random value of this name and these arguments, another one at each point."""
    context = _context()
    texts = [name, str(point.number), str(point.moved == f"{name}(")]
    for argument in arguments:
        number = argument if isinstance(argument, str) else number_of(argument)
        if not isinstance(number, str):
            number = context.mpf(0) if abs(number) < context.mpf(10) ** -30 else number
            number = context.nstr(number.real if is_real(number) else number, 25)
        texts.append(number)
    return context.mpf(random.Random("|".join(texts)).uniform(0.5, 3))


def added(a: Value, b: Value) -> Value:
    return _limited(operator.add(*_alike(a, b)))


def multiplied(a: Value, b: Value) -> Value:
    return _limited(operator.mul(*_alike(a, b)))


def _divided(a: Value, b: Value) -> Value:
    if b == 0:
        raise TooHard("division by zero")
    a, b = _alike(a, b)
    return Fraction(a) / b if is_exact(a) else a / b


def _power(point: Point, base: Value, exponent: Value) -> Value:
    context = _context()
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
            return _power(point, root, exponent.numerator)
    if point.kind == "real" and not isinstance(exponent, int) and number_of(base).real < 0:
        return _real_power(number_of(base), exponent)
    if abs(number_of(exponent)) * (abs(context.log(abs(number_of(base)))) + 1) > _LARGEST_LOGARITHM:
        raise TooLarge("a huge power")
    return context.power(number_of(base), number_of(exponent))


def _real_power(base: Value, exponent: Value) -> Value:
    """x^{2/3} of a negative number, as its odd root gives it."""
    if not isinstance(exponent, Fraction) or exponent.denominator % 2 == 0:
        raise Outside("a broken power of a negative number")
    size = _context().power(-base, number_of(exponent))
    return -size if exponent.numerator % 2 else size


def _root(point: Point, radicand: Value, degree: int) -> Value:
    if (known := _exact_root(radicand, degree)) is not None:
        return known
    number = number_of(radicand)
    if number.imag == 0 and number.real < 0:
        if degree % 2:
            return -_context().root(-number, degree)
        if point.kind == "real":
            raise Outside("a root of a negative number")
    return _context().root(number, degree)


def _exact_root(radicand: Value, degree: int) -> Value | None:
    """The root of a rational number, if it is rational too, and real."""
    if not is_exact(radicand) or _bits(radicand) > 150 or (radicand < 0 and degree % 2 == 0):
        return None
    top, bottom = (int(_context().nint(_context().root(part, degree))) for part in abs(radicand).as_integer_ratio())
    root = Fraction(top, bottom)
    return None if root**degree != abs(radicand) else _limited(-root if radicand < 0 else root)


def _factorial(n: Value) -> Value:
    if isinstance(n, int) and n > 5000:
        raise TooLarge("factorial of a large number")
    if isinstance(n, int) and n >= 0:
        return math.factorial(n)
    if abs(n) > 1000:
        raise TooHard("factorial of something else than a whole number")
    return _context().gamma(number_of(n) + 1)


def _binomial(n: Value, k: Value) -> Value:
    if isinstance(n, int) and isinstance(k, int):
        if n > 2000:
            raise TooLarge("a binomial of large numbers")
        return math.comb(n, k)
    return _context().binomial(number_of(n), number_of(k))


def _rounded(name: str) -> Callable[[Value], Value]:
    def rounded(number: Value) -> Value:
        """A whole number, where the digits settle it."""
        if is_exact(number):
            return math.floor(number) if name == "floor" else math.ceil(number)
        nearest = _context().nint(number.real)
        if not is_real(number) or abs(number) > 10**20 or abs(number - nearest) < _context().mpf(10) ** -25:
            raise TooHard("rounding that digits do not settle")
        return int(getattr(_context(), name)(number.real))

    return rounded


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": lambda *parts: reduce(added, parts), "*": lambda *parts: reduce(multiplied, parts),
    "-": operator.neg, "/": lambda a, b: _limited(_divided(a, b)), "!": _factorial, "binom": _binomial, "abs": abs,
    "floor": _rounded("floor"), "ceil": _rounded("ceil"), "deg": lambda angle: number_of(angle) * _context().pi / 180,
}  # fmt: skip


def _function(point: Point, name: str, argument: Value, base: Value | None) -> Value:
    context, number = _context(), number_of(argument)
    if abs(number) > (_LARGEST_LOGARITHM if name in _EXPONENTIAL else _LARGEST_ANGLE):
        raise TooLarge(f"{name} of a large number")
    if name in ("ln", "log", "lg") and (number == 0 or (point.kind == "real" and number.real < 0)):
        raise Outside("logarithm of zero, or of a negative number")
    if base is not None:
        return _divided(context.ln(number), context.ln(number_of(base)))
    result = getattr(context, _MPMATH_NAMES.get(name, name))(number)
    if point.kind == "real" and not is_real(result):
        raise Outside(f"{name} is not real there")
    return result


_AT_POINT: dict[str, Callable[..., Value]] = {"fn": _function, "root": _root, "^": _power}


def _bits(number: int | Fraction) -> int:
    return number.numerator.bit_length() + number.denominator.bit_length()


def _limited(number: Value) -> Value:
    """The number in its simplest kind: whole, a short fraction, digits.

    Raises:
        TooLarge: it is huge or tiny.
    """
    if is_exact(number):
        if number.denominator == 1 and _bits(number) <= _MOST_BITS:
            return int(number)
        return number if _bits(number) <= _FEW_BITS else number_of(number)
    if number != 0 and not -_LARGEST_LOGARITHM * 4 < _context().mag(number) < _LARGEST_LOGARITHM * 4:
        raise TooLarge("huge or tiny numbers")
    return number


def _context() -> Any:
    """mpmath keeps its precision in an object; each thread has one."""
    if not hasattr(_LOCAL, "context"):
        _LOCAL.context = needed("mpmath", "mpmath").MPContext()
        _LOCAL.context.dps = _DIGITS
    return _LOCAL.context


@lru_cache(maxsize=4096)
def _coordinate(name: str, number: int) -> Fraction:
    """The first points are positive, so that most domains hold two; later ones have either sign, at random."""
    dice = random.Random(f"{name} {number}")
    low, high = _RANGES[(number + len(name)) % 3]
    sign = 1 if number < _ALL_POSITIVE else dice.choice((-1, 1))
    return sign * Fraction(round(dice.uniform(low, high) * _DENOMINATOR), _DENOMINATOR)
