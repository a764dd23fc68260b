"""Formulas by their values at random points: exact where only rational numbers occur, else to fifty digits.

Two formulas that differ anywhere differ at a random point, and by far more than the last digits; two that agree to
forty digits at several points are the same. Each variable is a random number of its own, of either sign; a point where
a root, a power or a logarithm leaves the real numbers lies outside the domain and says nothing, unless i is written out
or no real point is inside: then the points are complex. An atom (an applied function, an integral without a closed
value) has a random value that depends on its name and on the values of its arguments, and on nothing else. Sizes are
limited, so that nothing here takes more than milliseconds.
"""

import math
import random
import threading
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from rubricworks.verifiers.expression.formula import BINDING, CALCULUS, OPAQUE, Rational, TooHard, TooLarge, Tree
from rubricworks.verifiers.failure import needed

Value = Any
"""A whole number or fraction, kept exact, or an mpmath number."""
_DIGITS = 50
_SAME = 40
"""Digits in which equal values agree."""
_RANGES = ((0.3, 0.9), (1.1, 2.9), (2.1, 8.9))
_ALL_POSITIVE, _POINTS, _COMPLEX_POINTS = 2, 10, 5
_FEW, _ENOUGH = 3, 2
"""Points that a formula without roots, logarithms and the like is compared at, and how many must be inside a domain."""
_BRANCHING = frozenset({"root", "abs", "floor", "ceil", "fn", "call", "!", "binom"}) | CALCULUS
_LARGEST_LOGARITHM = 10**6
_LARGEST_ANGLE = 10**6
_MPMATH_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot", "log": "log10", "lg": "log10"}
_EXPONENTIAL = ("exp", "sinh", "cosh", "tanh", "coth")
_DENOMINATOR = 10_007
"""Of random coordinates."""
_MOST_BITS, _FEW_BITS = 60_000, 4_000
"""Of one exact number: a whole one up to 5,000!, multiplied in microseconds, and a fraction."""
_LARGEST_DEGREE = 12
_LOCAL = threading.local()


class Point:
    """A value for each variable. A "real" point leaves the domain where a value would become complex."""

    def __init__(self, number: int, kind: str, moved: str | None = None) -> None:
        self.number, self.kind = number, kind
        self.moved = moved
        """The variable, or the atoms, that have another value than at the point of this number."""
        self.bound: dict[str, Value] = {}

    def coordinate(self, name: str) -> Value:
        context = _context()
        if name == "\\pi":
            return +context.pi
        if name in self.bound:
            return self.bound[name]
        if name == "e":
            return +context.e
        if name == "i":
            if self.kind == "real":
                raise TooHard("not real")
            return context.mpc(0, 1)
        seed = f"{name} moved" if name == self.moved else name
        real = _coordinate(seed, self.number)
        return (
            context.mpc(number_of(real), number_of(_coordinate(f"{seed} i", self.number)))
            if (self.kind == "complex")
            else real
        )


def same_values(a: Tree, b: Tree) -> bool | None:
    """Return True if the two agree wherever both are defined, None if that is nearly nowhere."""
    names = symbols(a) | symbols(b)
    imaginary, constant = "i" in names, not names - {"\\pi", "e", "i"}
    if constant:
        return _agree_at(a, b, [Point(0, "any")], 1)
    count = _POINTS if _is_branching(a) or _is_branching(b) else _FEW
    if not imaginary:
        outcome = _agree_at(a, b, [Point(number, "real") for number in range(count)], _ENOUGH)
        if outcome is not None:
            return outcome
    points = [Point(number, "any") for number in range(_FEW)] if imaginary else []
    return _agree_at(a, b, points + [Point(number, "complex") for number in range(_COMPLEX_POINTS)], _FEW)


def value(tree: Tree, point: Point) -> Value:
    """The value at a point.

    Raises:
        TooHard: it has none there.
        TooLarge: it is huge, or takes long.
    """
    kind = tree[0]
    if kind == "n":
        return tree[1]
    if kind == "digits":
        return tree[1]
    if kind == "s":
        return point.coordinate(tree[1])
    if kind in _BINDING:
        return _opened(tree, point)
    if kind in ("diff", "opaque diff"):
        return _atom(f"diff {tree[1]} {tree[2]}", point, [point.coordinate(tree[1]), value(tree[3], point)])
    if kind == "call":
        return _applied(tree[1], point, [value(part, point) for part in tree[2:]])
    if kind in ("floor", "ceil") and symbols(tree) - {"\\pi", "e"}:
        return _atom(kind, point, [value(tree[1], point)])
    if kind == "fn":
        base = None if tree[3] is None else value(tree[3], point)
        return _function(tree[1], value(tree[2], point), base, point)
    if kind == "root":
        return _root(value(tree[1], point), tree[2], point)
    parts = [value(part, point) for part in tree[1:]]
    if kind == "^":
        return _power(parts[0], parts[1], point)
    return _OPERATIONS[kind](*parts)


def constant_value(tree: Tree) -> Value:
    """The value of a formula without variables.

    Raises:
        TooHard: it has none, or an atom of unknown value.
    """
    if not _kinds(tree).isdisjoint(CALCULUS | OPAQUE | {"call"}):
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
    return Decimal(_context().nstr(_context().re(number), _SAME))


def is_real(number: Value) -> bool:
    if isinstance(number, int | Fraction):
        return True
    context = _context()
    return bool(abs(context.im(number)) <= abs(number) * context.mpf(10) ** -_SAME)


def agree(x: Value, y: Value) -> bool:
    if isinstance(x, int | Fraction) and isinstance(y, int | Fraction):
        return x == y
    x, y = number_of(x), number_of(y)
    return bool(abs(x - y) <= max(abs(x), abs(y)) * _context().mpf(10) ** -_SAME)


def polynomial_roots(coefficients: list[Value]) -> list[Value]:
    """The roots of a polynomial, its lowest power first.

    Raises:
        TooHard: they are not found.
    """
    context = _context()
    try:
        return list(
            context.polyroots([number_of(number) for number in reversed(coefficients)], maxsteps=200, extraprec=400)
        )
    except (context.NoConvergence, ZeroDivisionError, ValueError):
        raise TooHard("roots that are not found") from None


@lru_cache(maxsize=8192)
def symbols(tree: Tree) -> frozenset[str]:
    """The free variables, and e, i and pi."""
    if tree[0] == "s":
        return frozenset({tree[1]})
    names: frozenset[str] = frozenset()
    for part in tree[1:]:
        if isinstance(part, tuple):
            names |= symbols(part)
    if tree[0] in _BINDING:
        own = symbols(tree[-1]) - {tree[1]}
        return own.union(*(symbols(part) for part in tree[2:-1] if isinstance(part, tuple)))
    if tree[0] in ("diff", "opaque diff"):
        return names | {tree[1]}
    return names | {f"{tree[1]}("} if tree[0] == "call" else names


def depends_on(tree: Tree, name: str) -> bool:
    """Return True if the value changes with a variable, or with the unknown function "f("."""
    for number in range(4):
        try:
            before, after = (value(tree, Point(number, "any", moved)) for moved in (None, name))
        except (TooHard, ArithmeticError, ValueError, TypeError):
            continue
        if not agree(before, after) and abs(number_of(before) - number_of(after)) > _context().mpf(10) ** -_SAME:
            return True
    return False


def fraction_in(tree: Tree, name: str, point: Point) -> tuple[list[Value], list[Value]]:
    """Numerator and denominator as polynomials in one variable, lowest power first, the others at a point.

    Raises:
        TooHard: it is no quotient of polynomials.
    """
    kind, *parts = tree
    if name not in symbols(tree):
        return [value(tree, point)], [1]
    if kind == "s":
        return [0, 1], [1]
    if kind in ("+", "*", "-", "/"):
        fractions = [fraction_in(part, name, point) for part in parts]
        total = fractions[0]
        if kind == "-":
            return [-factor for factor in total[0]], total[1]
        for top, bottom in fractions[1:]:
            if kind == "+":
                total = _added(_times(total[0], bottom), _times(top, total[1])), _times(total[1], bottom)
            else:
                top, bottom = (bottom, top) if kind == "/" else (top, bottom)
                total = _times(total[0], top), _times(total[1], bottom)
        return total
    if kind == "^":
        power = constant_value(parts[1])
        if isinstance(power, int) and abs(power) <= _LARGEST_DEGREE:
            total = ("*", *[parts[0]] * abs(power)) if power else ("n", 1)
            return fraction_in(total if power >= 0 else ("/", ("n", 1), total), name, point)
    raise TooHard("no quotient of polynomials")


def _added(a: list[Value], b: list[Value]) -> list[Value]:
    return _trimmed([_sum(x, y) for x, y in zip_longest(a, b, fillvalue=0)])


def _times(a: list[Value], b: list[Value]) -> list[Value]:
    if len(a) + len(b) > 2 * _LARGEST_DEGREE:
        raise TooHard("a polynomial of a high degree")
    product: list[Value] = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] = _sum(product[i + j], _product(x, y))
    return _trimmed(product)


def _trimmed(polynomial: list[Value]) -> list[Value]:
    while len(polynomial) > 1 and abs(polynomial[-1]) < 1e-30:
        polynomial = polynomial[:-1]
    return polynomial


@lru_cache(maxsize=8192)
def _is_branching(tree: Tree) -> bool:
    """Return True if the formula may differ between points of different signs."""
    kind = tree[0]
    if kind == "^" and not (tree[2][0] == "n" and isinstance(tree[2][1], int)):
        return True
    return kind in _BRANCHING or any(isinstance(part, tuple) and _is_branching(part) for part in tree[1:])


@lru_cache(maxsize=8192)
def _kinds(tree: Tree) -> frozenset[str]:
    return frozenset({tree[0]}).union(*(_kinds(part) for part in tree[1:] if isinstance(part, tuple)))


def has_calculus(tree: Tree) -> bool:
    return not _kinds(tree).isdisjoint(CALCULUS)


def kind_count(tree: Tree, kinds: frozenset[str]) -> int:
    """The number of parts of these kinds."""
    if _kinds(tree).isdisjoint(kinds):
        return 0
    return (tree[0] in kinds) + sum(kind_count(part, kinds) for part in tree[1:] if isinstance(part, tuple))


def _agree_at(a: Tree, b: Tree, points: list[Point], enough: int) -> bool | None:
    agreed = 0
    for point in points:
        try:
            x, y = value(a, point), value(b, point)
        except (TooHard, ZeroDivisionError, OverflowError, ValueError, TypeError):
            continue
        if point.kind == "real" and not (is_real(x) and is_real(y)):
            continue
        if not agree(x, y) and not _cancels(a, b, point, abs(number_of(x) - number_of(y))):
            return False
        agreed += 1
    return True if agreed >= enough else None


def _cancels(a: Tree, b: Tree, point: Point, difference: Value) -> bool:
    """Return True if a tiny difference is lost digits alone, as of sin(pi) and 0: it shrinks with more digits."""
    context = _context()
    if isinstance(difference, int | Fraction) or difference > context.mpf(10) ** -_SAME:
        return False
    context.dps = 2 * _DIGITS
    try:
        left = abs(number_of(value(a, point)) - number_of(value(b, point)))
        return bool(left <= min(difference * context.mpf(10) ** -(_DIGITS // 2), context.mpf(10) ** (10 - 2 * _DIGITS)))
    finally:
        context.dps = _DIGITS


_BINDING = BINDING | {f"opaque {kind}" for kind in BINDING}
"""Kinds with a variable of their own: name, bounds, body."""


def _opened(tree: Tree, point: Point) -> Value:
    """An atom by its bounds and its body, whatever the bound variable is called."""
    kind, name, *bounds, body = tree
    kind = kind.removeprefix("opaque ")
    parts = [f"{bound}" if not isinstance(bound, tuple) else value(bound, point) for bound in bounds]
    outside = point.bound
    for number in (1, 2):
        point.bound = {**outside, name: _coordinate(f"bound {len(outside)}", number)}
        try:
            parts.append(value(body, point))
        finally:
            point.bound = outside
    return _atom(kind, point, parts)


def _applied(name: str, point: Point, arguments: list[Value]) -> Value:
    """An unknown function is an atom; of numbers, the largest and the like are known."""
    rational = _is_rational(*arguments)
    if rational and name in ("max", "min"):
        return max(arguments) if name == "max" else min(arguments)
    if rational and name in ("gcd", "lcm") and all(isinstance(number, int) for number in arguments):
        return getattr(math, name)(*arguments)
    if name in ("max", "min", "gcd", "lcm"):
        arguments = sorted(arguments, key=lambda number: str(number_of(number)))
    return _atom(name, point, arguments)


def _atom(name: str, point: Point, arguments: list[Value]) -> Value:
    """A random value of this name and these arguments, another one at each point."""
    context = _context()
    moved = " moved" if point.moved == f"{name}(" else ""
    texts = []
    for argument in arguments:
        number = argument if isinstance(argument, str) else number_of(argument)
        if not isinstance(number, str) and abs(number) < context.mpf(10) ** -30:
            number = context.mpf(0)
        elif not isinstance(number, str) and is_real(number):
            number = context.re(number)
        texts.append(number if isinstance(number, str) else context.nstr(number, 25))
    return context.mpf(random.Random(f"{name}({', '.join(texts)}) {point.number}{moved}").uniform(0.5, 3))


def _negative(a: Value) -> Value:
    return -a


def _sum(*parts: Value) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = total + part if _is_rational(total, part) else _limited(number_of(total) + number_of(part))
    return total


def _product(*parts: Value) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = total * part if _is_rational(total, part) else _limited(number_of(total) * number_of(part))
    return total


def _quotient(a: Value, b: Value) -> Value:
    if b == 0:
        raise TooHard("division by zero")
    if _is_rational(a, b):
        return _whole(Fraction(a) / b)
    return _limited(number_of(a) / number_of(b))


def _power(base: Value, exponent: Value, point: Point) -> Value:
    if base == 0:
        if _is_rational(exponent) and exponent > 0:
            return 0
        raise TooHard("a power of zero")
    most = _MOST_BITS if isinstance(base, int) else _FEW_BITS
    if isinstance(exponent, int) and _is_rational(base) and abs(exponent) * _bits(base) <= most:
        return _whole(Fraction(base) ** exponent)
    if (
        isinstance(exponent, Fraction)
        and exponent.denominator <= 12
        and (root := _exact_root(base, exponent.denominator))
    ):
        return _power(root, exponent.numerator, point)
    context, base = _context(), number_of(base)
    if point.kind == "real" and not isinstance(exponent, int) and context.re(base) < 0:
        raise TooHard("a broken power of a negative number")
    exponent = number_of(exponent)
    if abs(exponent) * (abs(context.log(abs(base))) + 1) > _LARGEST_LOGARITHM:
        raise TooLarge("a huge power")
    return _limited(context.power(base, exponent))


def _root(radicand: Value, degree: int, point: Point) -> Value:
    if (known := _exact_root(radicand, degree)) is not None:
        return known
    context, number = _context(), number_of(radicand)
    if context.im(number) == 0 and context.re(number) < 0:
        if degree % 2:
            return -context.root(-number, degree)
        if point.kind == "real":
            raise TooHard("a root of a negative number")
    return context.root(number, degree)


def _exact_root(radicand: Value, degree: int) -> Value | None:
    """The root of a rational number, if it is rational too, and real."""
    if not _is_rational(radicand) or _bits(radicand) > 150 or (radicand < 0 and degree % 2 == 0):
        return None
    size = Fraction(abs(radicand))
    with _context().workdps(_DIGITS):
        top, bottom = (int(_context().nint(_context().root(part, degree))) for part in size.as_integer_ratio())
    if Fraction(top, bottom) ** degree != size:
        return None
    return _whole(Fraction(top, bottom) * (-1 if radicand < 0 else 1))


def _factorial(n: Value) -> Value:
    context = _context()
    if isinstance(n, int) and n >= 0:
        if n > 5000:
            raise TooLarge("factorial of a large number")
        return math.factorial(n)
    if abs(number_of(n)) > 1000 or isinstance(n, int | Fraction):
        raise TooHard("factorial of something else than a whole number")
    return context.gamma(n + 1)


def _binomial(n: Value, k: Value) -> Value:
    if _is_rational(n, k):
        if not isinstance(n, int) or not isinstance(k, int) or not 0 <= k <= n:
            raise TooHard("a binomial of something else than whole numbers")
        if n > 2000:
            raise TooLarge("a binomial of large numbers")
        return math.comb(n, k)
    return _context().binomial(number_of(n), number_of(k))


def _size(a: Value) -> Value:
    return abs(a)


def _rounded(name: str) -> Callable[[Value], Value]:
    def rounded(number: Value) -> Value:
        """A whole number, where the digits settle it."""
        if isinstance(number, int | Fraction):
            return math.floor(number) if name == "floor" else math.ceil(number)
        context, number = _context(), number_of(number)
        nearest = context.nint(context.re(number))
        if not is_real(number) or abs(number) > context.mpf(10) ** 20 or abs(number - nearest) < context.mpf(10) ** -25:
            raise TooHard("rounding that digits do not settle")
        return int(getattr(context, name)(context.re(number)))

    return rounded


def _radians(angle: Value) -> Value:
    return number_of(angle) * _context().pi / 180


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "+": _sum, "*": _product, "-": _negative, "/": _quotient, "!": _factorial, "binom": _binomial, "abs": _size,
    "floor": _rounded("floor"), "ceil": _rounded("ceil"), "deg": _radians,
}  # fmt: skip


def _function(name: str, argument: Value, base: Value | None, point: Point) -> Value:
    context, number = _context(), number_of(argument)
    if abs(number) > (_LARGEST_LOGARITHM if name in _EXPONENTIAL else _LARGEST_ANGLE):
        raise TooLarge(f"{name} of a large number")
    logarithm = name in ("ln", "log", "lg")
    if logarithm and number == 0:
        raise TooHard("logarithm of zero")
    if logarithm and point.kind == "real" and context.re(number) < 0:
        raise TooHard("logarithm of a negative number")
    if base is not None:
        return _quotient(context.ln(number), context.ln(number_of(base)))
    try:
        result = _limited(getattr(context, _MPMATH_NAMES.get(name, name))(number))
    except (ValueError, ZeroDivisionError):
        raise TooHard(f"{name} has no value there") from None
    if point.kind == "real" and not is_real(result):
        raise TooHard(f"{name} is not real there")
    return result


def _is_rational(*values: Value) -> bool:
    return all(
        _bits(number) <= _MOST_BITS
        if isinstance(number, int)
        else isinstance(number, Fraction) and _bits(number) <= _FEW_BITS
        for number in values
    )


def _bits(number: Rational) -> int:
    return number.numerator.bit_length() + number.denominator.bit_length()


def _whole(number: Rational) -> Rational:
    return number.numerator if number.denominator == 1 else number


def number_of(number: Value) -> Value:
    """Convert to an mpmath number."""
    if isinstance(number, int | Fraction):
        return _context().mpf(number.numerator) / number.denominator
    return number


def _limited(number: Value) -> Value:
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
    """The first points are positive, so that most domains hold two; later ones have random signs."""
    dice = random.Random(f"{name} {number}")
    low, high = dice.choice(_RANGES)
    sign = 1 if number < _ALL_POSITIVE else dice.choice((-1, 1))
    return sign * Fraction(round(dice.uniform(low, high) * _DENOMINATOR), _DENOMINATOR)
