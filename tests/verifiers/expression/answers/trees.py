# ruff: noqa: RUF001 - answers in Unicode
"""Expression trees of the pair generator: building, evaluating at points, reordering, and changing one node.

The trees are independent of the verifier and of SymPy. Two trees are *the same* if they agree at every point, and
*different* if they disagree clearly at one. Derivatives, primes and applied functions are `Atom`s.
"""

import cmath
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

HALF = Fraction(1, 2)
CONSTANTS: dict[str, complex] = {"pi": math.pi, "e": math.e, "i": 1j}
FUNCTIONS = {"sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan, "ln": cmath.log, "exp": cmath.exp, "abs": abs}
OTHER_FUNCTION = {"sin": "cos", "cos": "sin", "tan": "cos", "ln": "sin", "log_2": "log_3", "log_3": "log_2"}
OTHER_SYMBOL = dict(zip("xyztabcmnkrsuv", "yzxuabctknsrvw", strict=True)) | {"a": "b", "b": "a", "c": "b"}


@dataclass(frozen=True)
class Num:
    value: Fraction


@dataclass(frozen=True)
class Sym:
    """A free symbol, such as `x`, `x_1` or `alpha`, or one of CONSTANTS."""

    name: str


@dataclass(frozen=True)
class Add:
    terms: tuple["Tree", ...]


@dataclass(frozen=True)
class Mul:
    factors: tuple["Tree", ...]


@dataclass(frozen=True)
class Pow:
    base: "Tree"
    exponent: "Tree"


@dataclass(frozen=True)
class Fn:
    """A named function, such as `sin` or `log_2`."""

    name: str
    argument: "Tree"


@dataclass(frozen=True)
class Sum:
    """The sum of `body` for an index from 1 to `last`."""

    body: "Tree"
    index: str
    last: "Tree"


@dataclass(frozen=True)
class Atom:
    """An opaque symbol: a derivative, a prime or an applied function, with its spellings and wrong neighbours."""

    latex: tuple[str, ...]
    plain: tuple[str, ...]
    neighbours: tuple[tuple[str, "Tree"], ...] = ()


Tree = Num | Sym | Add | Mul | Pow | Fn | Sum | Atom


def num(value: Any, denominator: int = 1) -> Num:
    return Num(Fraction(value) / denominator)


def add(*terms: Any) -> Tree:
    """Return the sum of trees and numbers, without zeros."""
    trees = tuple(term for term in map(as_tree, terms) if term != num(0))
    return Add(trees) if len(trees) > 1 else trees[0] if trees else num(0)


def mul(*factors: Any) -> Tree:
    """Return the product of trees and numbers; numbers become one coefficient in front."""
    coefficient, rest = Fraction(1), []
    for factor in map(as_tree, factors):
        for part in factor.factors if isinstance(factor, Mul) else (factor,):
            if isinstance(part, Num):
                coefficient *= part.value
            else:
                rest.append(part)
    if not rest or coefficient == 0:
        return Num(coefficient)
    trees = tuple(rest) if coefficient == 1 else (Num(coefficient), *rest)
    return Mul(trees) if len(trees) > 1 else trees[0]


def power(base: Any, exponent: Any) -> Tree:
    return as_tree(base) if as_tree(exponent) == num(1) else Pow(as_tree(base), as_tree(exponent))


def root(radicand: Any) -> Tree:
    return Pow(as_tree(radicand), num(1, 2))


def divide(numerator: Any, denominator: Any) -> Tree:
    return mul(numerator, Pow(as_tree(denominator), num(-1)))


def minus(left: Tree, right: Tree) -> Tree:
    return add(*terms_of(left), *(mul(-1, term) for term in terms_of(right)))


def shift(tree: Tree, step: int) -> Tree:
    """Return a tree plus an integer."""
    return Num(tree.value + step) if isinstance(tree, Num) else add(tree, step)


def terms_of(tree: Tree) -> tuple[Tree, ...]:
    return tree.terms if isinstance(tree, Add) else (tree,)


def as_tree(value: Any) -> Tree:
    return num(value) if isinstance(value, int | Fraction) else Sym(value) if isinstance(value, str) else value


class Point(dict):
    """Values for symbols and atoms, drawn on first use and the same for every tree."""

    def __init__(self, index: int, low: float, high: float, fixed: tuple[Any, complex] | None = None) -> None:
        super().__init__([fixed] if fixed else [])
        self.index, self.low, self.high = index, low, high

    def __missing__(self, key: Any) -> complex:
        rng = Random(f"{key}@{self.index}")
        value = rng.randint(2, 6) if key == "n" else rng.uniform(self.low, self.high)
        self[key] = value
        return value

    def fixing(self, key: Any, value: complex) -> "Point":
        """Return this point with one coordinate replaced."""
        other = Point(self.index, self.low, self.high)
        other.update(self)
        other[key] = value
        return other


POSITIVE = tuple(Point(index, 0.3, 1.4) for index in range(4))
SIGNED = tuple(Point(10 + index, -3.0, 3.0) for index in range(16))


def evaluate(tree: Tree, point: Point) -> complex:
    """Return the value of a tree at a point; ZeroDivisionError, OverflowError or ValueError where it has none."""
    match tree:
        case Num(value):
            return float(value)
        case Sym(name):
            return CONSTANTS[name] if name in CONSTANTS else point[name]
        case Add(terms):
            return sum(evaluate(term, point) for term in terms)
        case Mul(factors):
            return math.prod(evaluate(factor, point) for factor in factors)
        case Pow(base, exponent):
            return evaluate(base, point) ** evaluate(exponent, point)
        case Fn(name, argument):
            value = evaluate(argument, point)
            if name.startswith("log_"):
                return cmath.log(value) / math.log(int(name[4:]))
            return FUNCTIONS[name](value)
        case Sum(body, index, last):
            steps = range(1, round(evaluate(last, point).real) + 1)
            return sum(evaluate(body, point.fixing(index, step)) for step in steps)
        case Atom():
            return point[tree.latex[0]]
    raise TypeError(tree)


def same(left: Tree, right: Tree) -> bool:
    """Return True if two trees agree at every point."""
    for point in POSITIVE:
        first, second = evaluate(left, point), evaluate(right, point)
        if abs(first - second) > 1e-9 * max(abs(first), abs(second)) + 1e-12:
            return False
    return True


def different(left: Tree, right: Tree) -> bool:
    """Return True if two trees disagree clearly at one point; False also if they cannot be evaluated."""
    for point in POSITIVE:
        try:
            first, second = evaluate(left, point), evaluate(right, point)
        except (ZeroDivisionError, OverflowError, ValueError):
            return False
        if abs(first - second) > 1e-6 * max(abs(first), abs(second), 1e-3):
            return True
    return False


def substitute(tree: Tree, name: str, value: Tree) -> Tree:
    """Return the tree with a symbol replaced."""
    if isinstance(tree, Sym):
        return value if tree.name == name else tree
    return rebuild(tree, [substitute(child, name, value) for child in children(tree)])


def symbols(tree: Tree) -> set[str]:
    """Return the names of the free symbols of a tree."""
    if isinstance(tree, Sym):
        return set() if tree.name in CONSTANTS else {tree.name}
    names = set().union(*(symbols(child) for child in children(tree)))
    return names - {tree.index} if isinstance(tree, Sum) else names


def children(tree: Tree) -> tuple[Tree, ...]:
    match tree:
        case Add(parts) | Mul(parts):
            return parts
        case Pow(base, exponent):
            return base, exponent
        case Fn(_, argument):
            return (argument,)
        case Sum(body, _, last):
            return body, last
    return ()


def rebuild(tree: Tree, parts: list[Tree]) -> Tree:
    """Return a node of the same sort with other children."""
    match tree:
        case Add():
            return add(*parts)
        case Mul():
            return mul(*parts)
        case Pow():
            return power(*parts)
        case Fn(name, _):
            return Fn(name, parts[0])
        case Sum(_, index, _):
            return Sum(parts[0], index, parts[1])
    return tree


def reorder(tree: Tree, rng: Random) -> Tree:
    """Return the tree with terms and factors in another order."""
    parts = [reorder(child, rng) for child in children(tree)]
    if isinstance(tree, Add | Mul):
        rng.shuffle(parts)
    return rebuild(tree, parts)


def changes(tree: Tree, role: str = "constant") -> Iterator[tuple[str, Tree]]:
    """Yield every tree in which one node was changed, with the name of the change."""
    match tree:
        case Num(value):
            if value != -1:
                yield role, Num(value + 1)
            if role != "exponent" or value not in (1, HALF):
                yield role, Num(value - 1 if value not in (0, 1) else value + 2)
            if value.denominator > 1:
                yield "denominator", Num(Fraction(value.numerator, value.denominator + 1))
        case Sym(name) if name in OTHER_SYMBOL:
            yield "variable", Sym(OTHER_SYMBOL[name])
        case Sym(name) if name.rpartition("_")[2].isdigit():
            yield "index", Sym(f"{name.rpartition('_')[0]}_{int(name.rpartition('_')[2]) + 1}")
        case Sym(name) if name not in CONSTANTS:
            yield "variable", Sym("x")
        case Add(terms):
            for position, term in enumerate(terms):
                others = terms[:position], terms[position + 1 :]
                yield "sign", add(*others[0], mul(-1, term), *others[1])
                yield "dropped term", add(*others[0], *others[1])
        case Fn(name, argument):
            if name in OTHER_FUNCTION:
                yield "function", Fn(OTHER_FUNCTION[name], argument)
        case Atom():
            yield from tree.neighbours
    for position, child in enumerate(children(tree)):
        inner = {Add: "constant", Mul: "coefficient", Fn: "argument", Sum: "bound"}.get(type(tree), "exponent")
        if isinstance(tree, Pow):
            inner = "exponent" if position else "base"
        for name, changed in changes(child, inner):
            parts = list(children(tree))
            parts[position] = changed
            yield name, rebuild(tree, parts)


def prime(name: str, order: int) -> Atom:
    """Return `y'` or `y''`, whose wrong neighbours are another order and the function itself."""
    latex = ("'" * order, "^{" + r"\prime" * order + "}", "^{(" + str(order) + ")}" if order > 2 else "'" * order)
    neighbours: list[tuple[str, Tree]] = [("prime removed", Sym(name))]
    if order < 3:
        neighbours.append(("derivative order", prime(name, order + 1)))
    return Atom(tuple(name + mark for mark in latex), (name + "'" * order, name + "′″‴"[order - 1]), tuple(neighbours))


def derivative(name: str, variable: str, order: int = 1) -> Atom:
    """Return `dv/dt` or a higher derivative as Leibniz writes it."""
    up, down = (f"^{order}" if order > 1 else ""), (f"^{order}" if order > 1 else "")
    latex = (
        rf"\frac{{d{up}{name}}}{{d{variable}{down}}}",
        rf"\dfrac{{d{up} {name}}}{{d {variable}{down}}}",
        rf"\frac{{\mathrm{{d}}{up}{name}}}{{\mathrm{{d}}{variable}{down}}}",
    )
    neighbours: list[tuple[str, Tree]] = [("derivative dropped", Sym(name))]
    if order < 2:
        neighbours.append(("derivative order", derivative(name, variable, order + 1)))
    return Atom(latex, (f"d{up}{name}/d{variable}{down}",), tuple(neighbours))


def applied(name: str, argument: str) -> Atom:
    """Return an unknown function at an argument, such as `I(0)`."""
    neighbours: list[tuple[str, Tree]] = [("function without argument", Sym(name))]
    if argument in ("0", "1", "2"):
        neighbours.append(("another argument", applied(name, str(int(argument) + 1))))
    return Atom((f"{name}({argument})", rf"{name}\left({argument}\right)"), (f"{name}({argument})",), tuple(neighbours))
