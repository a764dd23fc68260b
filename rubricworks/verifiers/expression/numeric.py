"""Formulas by their values at random points: exact where only rational numbers occur, else to a hundred digits.

Two formulas that differ anywhere differ at a random point, and by far more than the last digits; two that agree to a
hundred digits at several points are the same. Each variable is a random number of its own, of either sign. A point
where a root, a power or a logarithm leaves the real numbers is outside the domain, where the other formula must be too,
unless i is written out or no real point is inside: then the points are complex. An atom (an applied function, an
integral without a closed value) has a random value that depends on its name, its arguments and the point only. Nothing
here takes more than milliseconds.
"""

import random
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from rubricworks.verifiers.expression.arithmetic import (
    AT_POINT,
    DIGITS,
    OPERATIONS,
    SAME,
    Value,
    alike,
    is_exact,
    is_real,
    limited,
    mp_context,
    number_of,
)
from rubricworks.verifiers.expression.tokens import Outside, TooHard
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

NO_VALUE = (TooHard, ArithmeticError, ValueError)
_DECIMAL_DIGITS = 60
_RANGES, _DENOMINATOR = ((0.3, 0.9), (1.1, 2.9), (2.1, 8.9)), 10_007
_ALL_POSITIVE, _POINTS, _COMPLEX_POINTS = 2, 14, 5
_FEW, _ENOUGH = 3, 2
"""Points that a formula without roots, logarithms and the like is compared at, and how many must be inside a domain."""


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
            return +(mp_context().pi if name == "\\pi" else mp_context().e)
        if name == "i":
            if self.kind == "real":
                raise TooHard("not real")
            return mp_context().mpc(0, 1)
        seed = f"{name} moved" if name == self.moved else name
        real = _coordinate(seed, self.number)
        return (
            real
            if self.kind != "complex"
            else number_of(real) + mp_context().mpc(0, number_of(_coordinate(f"{seed} i", self.number)))
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
        return _atom(parts[0], point, parts[1:])
    if kind in ("floor", "ceil") and symbols(tree) - CONSTANTS:
        return _atom(kind, point, parts)
    if kind in AT_POINT:
        return limited(AT_POINT[kind](point.kind == "real", *parts))
    return OPERATIONS[kind](*parts)


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
    return Decimal(mp_context().nstr(number.real, _DECIMAL_DIGITS))


def agree(x: Value, y: Value) -> bool:
    x, y = alike(x, y)
    return x == y if is_exact(x) else bool(abs(x - y) <= max(abs(x), abs(y)) * mp_context().mpf(10) ** -SAME)


def depends_on(tree: Tree, name: str) -> bool:
    """Return True if the value changes with a variable, or with the unknown function "f("."""
    for number in range(4):
        try:
            before, after = (value(tree, Point(number, "any", moved)) for moved in (None, name))
        except NO_VALUE:
            continue
        if not agree(before, after) and abs(number_of(before) - number_of(after)) > mp_context().mpf(10) ** -SAME:
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
    context = mp_context()
    context.dps = 3 * DIGITS
    try:
        x, y = alike(*(value(tree, Point(0, "any")) for tree in (a, b)))
        return is_exact(x) or bool(abs(x - y) <= max(abs(x), abs(y), 1) * context.mpf(10) ** (-3 * SAME))
    finally:
        context.dps = DIGITS


def _cancels(a: Tree, b: Tree, point: Point, x: Value, y: Value) -> bool:
    """Return True if a tiny difference is lost digits alone, as of sin(pi) and 0: it shrinks with more digits."""
    context = mp_context()
    difference = 1 if is_exact(x, y) else abs(number_of(x) - number_of(y))
    if difference > context.mpf(10) ** -SAME:
        return False
    context.dps = 2 * DIGITS
    try:
        left = abs(number_of(value(a, point)) - number_of(value(b, point)))
        return bool(left <= min(difference * context.mpf(10) ** -(DIGITS // 2), context.mpf(10) ** (10 - 2 * DIGITS)))
    finally:
        context.dps = DIGITS


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


def _atom(name: str, point: Point, arguments: list[Value]) -> Value:
    """A random value of this name and these arguments, another one at each point."""
    context = mp_context()
    texts = [name, str(point.number), str(point.moved == f"{name}(")]
    for argument in arguments:
        number = argument if isinstance(argument, str) else number_of(argument)
        if not isinstance(number, str):
            number = context.mpf(0) if abs(number) < context.mpf(10) ** -30 else number
            number = context.nstr(number.real if is_real(number) else number, 25)
        texts.append(number)
    return context.mpf(random.Random("|".join(texts)).uniform(0.5, 3))


@lru_cache(maxsize=4096)
def _coordinate(name: str, number: int) -> Fraction:
    """The first points are positive, so that most domains hold two; later ones have either sign, at random."""
    dice = random.Random(f"{name} {number}")
    low, high = _RANGES[(number + len(name)) % 3]
    sign = 1 if number < _ALL_POSITIVE else dice.choice((-1, 1))
    return sign * Fraction(round(dice.uniform(low, high) * _DENOMINATOR), _DENOMINATOR)
