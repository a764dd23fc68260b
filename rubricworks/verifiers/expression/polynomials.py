"""Formulas as quotients of polynomials in one variable, lists of coefficients from the lowest power."""

from itertools import zip_longest

from rubricworks.verifiers.expression.arithmetic import Value, added, is_exact, multiplied, number_of
from rubricworks.verifiers.expression.numeric import Point, constant_value, value
from rubricworks.verifiers.expression.tokens import TooHard
from rubricworks.verifiers.expression.trees import Tree, symbols

Polynomial = list[Value]
NEARLY_ZERO = 1e-10
_LARGEST_DEGREE = 12


def fraction_in(tree: Tree, name: str, point: Point) -> tuple[Polynomial, Polynomial]:
    """Numerator and denominator in one variable, the others at a point.

    Raises:
        TooHard: it is no quotient of polynomials.
    """
    kind, *parts = tree
    if name not in symbols(tree):
        return [value(tree, point)], [1]
    if kind == "s":
        return [0, 1], [1]
    if kind == "^" and isinstance(power := constant_value(parts[1]), int) and abs(power) <= _LARGEST_DEGREE:
        product = ("*", *[parts[0]] * abs(power)) if power else ("n", 1)
        return fraction_in(product if power >= 0 else ("/", ("n", 1), product), name, point)
    if kind not in ("+", "*", "-", "/"):
        raise TooHard("no quotient of polynomials")
    (top, bottom), *others = [fraction_in(part, name, point) for part in parts]
    if kind == "-":
        return [-factor for factor in top], bottom
    for above, below in others:
        if kind == "+":
            crossed = zip_longest(_times(top, below), _times(above, bottom), fillvalue=0)
            top, bottom = _trimmed([added(a, b) for a, b in crossed]), _times(bottom, below)
        else:
            above, below = (below, above) if kind == "/" else (above, below)
            top, bottom = _times(top, above), _times(bottom, below)
    return top, bottom


def value_at(polynomial: Polynomial, place: Value) -> Value:
    total: Value = 0
    for factor in reversed(polynomial):
        total = added(multiplied(total, place), factor)
    return total


def polynomial_roots(coefficients: list[Value]) -> list[Value]:
    """The roots of a polynomial, its lowest power first.

    Raises:
        TooHard: they are not found.
    """
    context = number_of(1).context
    try:
        return list(context.polyroots(list(map(number_of, reversed(coefficients))), maxsteps=200, extraprec=400))
    except (context.NoConvergence, ZeroDivisionError, ValueError):
        raise TooHard("roots that are not found") from None


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    if len(a) + len(b) > 2 * _LARGEST_DEGREE:
        raise TooHard("a polynomial of a high degree")
    product: Polynomial = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] = added(product[i + j], multiplied(x, y))
    return _trimmed(product)


def _trimmed(polynomial: Polynomial) -> Polynomial:
    while len(polynomial) > 1 and (polynomial[-1] == 0 if is_exact(polynomial[-1]) else abs(polynomial[-1]) < 1e-30):
        polynomial = polynomial[:-1]
    return polynomial
