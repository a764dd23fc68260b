"""Answers that relate unknowns: equations, among them differential equations, and inequalities.

Two of them are *unequal* if a witness is known: a point that solves one and not the other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from answers.numbers import Raw, Writer, pick_change
from answers.spelling import Style, write
from answers.trees import (
    SIGNED,
    Atom,
    Fn,
    Point,
    Sym,
    Tree,
    add,
    children,
    derivative,
    divide,
    evaluate,
    minus,
    mul,
    num,
    power,
    prime,
    reorder,
    symbols,
    terms_of,
)

NEGLIGIBLE, CLEAR = 1e-9, 1e-4


def unknowns(tree: Tree) -> list[str]:
    """Return the keys of a tree's symbols and atoms, in alphabetical order."""
    atoms = {tree.latex[0]} if isinstance(tree, Atom) else set()
    for child in children(tree):
        atoms |= set(unknowns(child))
    return sorted(atoms | symbols(tree))


def roots(tree: Tree, key: str, point: Point) -> list[float]:
    """Return the real values of one unknown at which a tree is zero, if it is linear or quadratic in it."""
    try:
        first, second, third, fourth = (evaluate(tree, point.fixing(key, float(value))).real for value in (1, 2, 3, 4))
    except (ZeroDivisionError, OverflowError, ValueError, AttributeError):
        return []
    square = (third - 2 * second + first) / 2
    linear = second - first - 3 * square
    constant = first - square - linear
    if abs(16 * square + 4 * linear + constant - fourth) > 1e-7 * max(1.0, abs(fourth)):
        return []
    if abs(square) < NEGLIGIBLE:
        return [-constant / linear] if abs(linear) > CLEAR else []
    discriminant = linear * linear - 4 * square * constant
    if discriminant < CLEAR:
        return []
    return [(-linear + sign * math.sqrt(discriminant)) / (2 * square) for sign in (1, -1)]


def solutions(tree: Tree, count: int = 4) -> Iterator[Point]:
    """Yield points at which a tree is zero."""
    for point in SIGNED[:count]:
        for key in unknowns(tree)[:3]:
            for value in roots(tree, key, point):
                yield point.fixing(key, value)


def scale_terms(tree: Tree, factor: int) -> Tree:
    return add(*(mul(factor, term) for term in terms_of(tree)))


@dataclass(frozen=True)
class Equation:
    """An equation in unknowns; `rewrites` are equations with the same solutions."""

    left: Tree
    right: Tree
    rewrites: tuple[tuple[str, Tree, Tree], ...] = ()
    explicit: bool = False  # `y = …`: the right side alone is the answer, too
    kind = "equation"

    @property
    def difference(self) -> Tree:
        return minus(self.left, self.right)

    def forms(self, rng: Random) -> dict[str, Writer]:
        factor = rng.choice((2, 3, -1, -2, 5))
        left, right = self.left, self.right

        def equate(first: Tree, second: Tree) -> Writer:
            return lambda style: write(first, style) + " = " + write(second, style)

        forms = {
            "written out": equate(left, right),
            "sides swapped": equate(right, left),
            "sides reordered": equate(reorder(left, rng), reorder(right, rng)),
            "moved to the left": equate(self.difference, num(0)),
            "scaled": equate(scale_terms(left, factor), scale_terms(right, factor)),
            "aligned": lambda style: (
                rf"\begin{{aligned}} {write(left, style)} &= {write(right, style)} \end{{aligned}}"
                if style.latex
                else equate(left, right)(style)
            ),
        }
        if self.explicit:
            forms["right side only"] = lambda style: write(right, style)
        return forms | {name: equate(*sides) for name, *sides in self.rewrites}

    def target_forms(self, forms: dict[str, Writer]) -> dict[str, Writer]:
        return {name: form for name, form in forms.items() if name not in ("aligned", "right side only", "scaled")}

    def mutations(self, rng: Random) -> dict[str, "Equation | Raw"]:
        mutations: dict[str, Equation | Raw] = {}
        for _ in range(4):
            side = rng.choice(("left", "right"))
            if change := pick_change(
                getattr(self, side),
                rng,
                lambda tree, side=side: self.unequal(replace(self, rewrites=(), **{side: tree})),
            ):
                changed = replace(self, rewrites=(), **{side: change[1]})
                # The right side of `z = 2x` alone would answer `y = 2x`.
                mutations[change[0]] = replace(changed, explicit=self.explicit and side == "right")
        latex, plain = Style("latex", rng), Style("ascii", rng)
        mutations["less instead of equal"] = Raw(
            *(write(self.left, style) + " < " + write(self.right, style) for style in (latex, plain))
        )
        if not self.explicit and terms_of(self.left) != (self.left,):
            mutations["left side only"] = Raw(write(self.left, latex), write(self.left, plain))
        return mutations

    def unequal(self, other: object) -> bool:
        if not isinstance(other, Equation):
            return isinstance(other, Raw)
        pairs = (self.difference, other.difference), (other.difference, self.difference)
        return any(self.unsolved(point, tree) for solved, tree in pairs for point in solutions(solved))

    @staticmethod
    def unsolved(point: Point, tree: Tree) -> bool:
        try:
            return abs(evaluate(tree, point)) > CLEAR
        except (ZeroDivisionError, OverflowError, ValueError):
            return False


def draw_equation(rng: Random) -> Equation:
    """Return a random equation of a random family."""
    a, b, c, d = (rng.choice((-1, 1, 1)) * rng.randint(1, 9) for _ in range(4))
    k, m = rng.randint(2, 6), rng.randint(2, 7)
    x, y = Sym("x"), Sym("y")
    match rng.choice(
        (
            "line",
            "line",
            "explicit line",
            "circle",
            "ellipse",
            "parabola",
            "plane",
            "hyperbola",
            "implicit",
            "second order",
            "first order",
            "Leibniz",
            "motion",
            "formula",
            "formula",
        )
    ):
        case "line":
            left = add(mul(k, x), mul(b, y))
            return Equation(
                left,
                num(c),
                (
                    ("solved for y", y, add(mul(num(-k, b), x), num(c, b))),
                    ("all on one side", minus(left, num(c)), num(0)),
                ),
            )
        case "explicit line":
            slope = num(a, rng.choice((1, 1, 2, 3)))
            return Equation(y, add(mul(slope, x), b), (), True)
        case "circle":
            radius = rng.randint(2, 9)
            left = add(power(add(x, -a), 2), power(add(y, -b), 2))
            expanded = add(power(x, 2), mul(-2 * a, x), power(y, 2), mul(-2 * b, y), a * a + b * b - radius**2)
            return Equation(left, num(radius**2), (("expanded", expanded, num(0)),))
        case "ellipse":
            left = add(divide(power(x, 2), k * k), divide(power(y, 2), (k + 1) ** 2))
            cleared = add(mul((k + 1) ** 2, power(x, 2)), mul(k * k, power(y, 2)))
            return Equation(left, num(1), (("cleared of fractions", cleared, num((k * (k + 1)) ** 2)),))
        case "parabola":
            if rng.random() < 0.5:
                return Equation(y, add(mul(k, power(x, 2)), mul(b, x), c), (), True)
            return Equation(power(y, 2), mul(4 * k, x))
        case "plane":
            return Equation(add(mul(k, x), mul(b, y), mul(c, "z")), num(d))
        case "hyperbola":
            return Equation(add(divide(power(x, 2), k * k), mul(-1, divide(power(y, 2), (m + 1) ** 2))), num(1))
        case "implicit":
            return Equation(add(power(x, 2), mul(k, x, y), power(y, 2)), num(m + 5))
        case "second order":
            right = rng.choice((num(0), num(0), Fn("sin", x), power("e", mul(-1, x)), x))
            return Equation(add(prime("y", 2), mul(a, prime("y", 1)), mul(k, y)), right)
        case "first order":
            return Equation(add(prime("y", 1), mul(a, y)), rng.choice((num(0), x, power(x, 2), num(m))))
        case "Leibniz":
            return rng.choice(
                (
                    Equation(derivative("y", "x"), mul(a, x, y)),
                    Equation(add(derivative("y", "x"), mul(a, y)), power(x, 2)),
                    Equation(add(derivative("y", "x", 2), mul(k, y)), num(0)),
                    Equation(derivative("N", "t"), mul(-1, "lambda", "N")),
                )
            )
        case "motion":
            return rng.choice(
                (
                    Equation(add(mul("m", derivative("v", "t")), mul("b", "v")), Sym("f")),
                    Equation(add(mul("m", derivative("x", "t", 2)), mul("k", "x")), num(0)),
                    Equation(add(mul("L", derivative("I", "t")), mul("R", "I")), Sym("V")),
                )
            )
    return rng.choice(
        (
            Equation(Sym("V"), mul("I", "R")),
            Equation(mul("P", "V"), mul("n", "R", "T")),
            Equation(Sym("F"), mul("m", "a")),
            Equation(Sym("v"), add("u", mul("a", "t"))),
            Equation(power("v", 2), add(power("u", 2), mul(2, "a", "s"))),
            Equation(divide(1, "f"), add(divide(1, "u"), divide(1, "v"))),
            Equation(mul("m_1", "v_1"), mul("m_2", "v_2")),
        )
    )


FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
LOOSENED = {"<": "<=", ">": ">=", "<=": "<", ">=": ">"}


@dataclass(frozen=True)
class Relation:
    """An inequality in several unknowns, or a chain of them."""

    trees: tuple[Tree, ...]
    signs: tuple[str, ...]
    kind = "relation"

    def forms(self, rng: Random) -> dict[str, Writer]:
        factor = rng.choice((2, 3, 4))

        def chain(trees: tuple[Tree, ...], signs: tuple[str, ...]) -> Writer:
            def write_chain(style: Style) -> str:
                text = write(trees[0], style)
                for sign, tree in zip(signs, trees[1:], strict=True):
                    text += style.relation(sign) + write(tree, style)
                return text

            return write_chain

        flipped = tuple(FLIPPED[sign] for sign in self.signs)
        forms = {
            "written out": chain(self.trees, self.signs),
            "sides swapped": chain(self.trees[::-1], flipped[::-1]),
            "sides reordered": chain(tuple(reorder(tree, rng) for tree in self.trees), self.signs),
        }
        if len(self.trees) == 2:
            forms["scaled"] = chain(tuple(scale_terms(tree, factor) for tree in self.trees), self.signs)
            forms["negated"] = chain(tuple(scale_terms(tree, -1) for tree in self.trees), flipped)
            forms["moved to the left"] = chain((minus(*self.trees), num(0)), self.signs)
        else:
            parts = [chain(self.trees[place : place + 2], self.signs[place : place + 1]) for place in (0, 1)]
            forms["two relations"] = lambda style: style.word("and").join(part(style) for part in parts)
        return forms

    def target_forms(self, forms: dict[str, Writer]) -> dict[str, Writer]:
        return {name: form for name, form in forms.items() if name not in ("scaled", "negated")}

    def mutations(self, rng: Random) -> dict[str, "Relation | Raw"]:
        position = rng.randrange(len(self.signs))

        def with_sign(sign: str) -> Relation:
            return replace(self, signs=(*self.signs[:position], sign, *self.signs[position + 1 :]))

        mutations: dict[str, Relation | Raw] = {
            "strictness": with_sign(LOOSENED[self.signs[position]]),
            "direction": with_sign(FLIPPED[self.signs[position]]),
        }
        for _ in range(2):
            place = rng.randrange(len(self.trees))
            if change := pick_change(
                self.trees[place], rng, lambda tree, place=place: self.unequal(self.with_tree(place, tree))
            ):
                mutations[change[0]] = self.with_tree(place, change[1])
        if len(self.trees) == 3:
            mutations["order of a chain"] = replace(self, trees=(self.trees[0], self.trees[2], self.trees[1]))
            mutations["dropped part"] = Relation(self.trees[:2], self.signs[:1])
        else:
            styles = Style("latex", rng), Style("ascii", rng)
            mutations["equal instead"] = Raw(
                *(f"{write(self.trees[0], style)} = {write(self.trees[1], style)}" for style in styles)
            )
        return mutations

    def with_tree(self, place: int, tree: Tree) -> "Relation":
        return replace(self, trees=(*self.trees[:place], tree, *self.trees[place + 1 :]))

    def holds(self, point: Point) -> bool:
        values = [evaluate(tree, point).real for tree in self.trees]
        for sign, left, right in zip(self.signs, values[:-1], values[1:], strict=True):
            if abs(left - right) < NEGLIGIBLE * max(1.0, abs(left)):
                if "=" not in sign:
                    return False
            elif (left < right) != ("<" in sign):
                return False
        return True

    def unequal(self, other: object) -> bool:
        if not isinstance(other, Relation):
            return isinstance(other, Raw)
        points = list(SIGNED)
        for relation in (self, other):
            for left, right in zip(relation.trees, relation.trees[1:], strict=False):
                points += solutions(minus(left, right), 5)
        return any(self.holds(point) != other.holds(point) for point in points)


def draw_relation(rng: Random) -> Relation:
    """Return a random inequality in at least two unknowns."""
    a, b, c = (rng.choice((-1, 1)) * rng.randint(1, 9) for _ in range(3))
    k, sign = rng.randint(2, 6), rng.choice(("<", "<=", ">", ">="))
    x, y = Sym("x"), Sym("y")
    match rng.choice(
        ("half plane", "half plane", "disk", "above a parabola", "three unknowns", "order", "order", "strip")
    ):
        case "half plane":
            return Relation((add(mul(k, x), mul(b, y)), num(c)), (sign,))
        case "disk":
            return Relation((add(power(x, 2), power(y, 2)), num(k * k)), (sign,))
        case "above a parabola":
            return Relation((y, add(mul(a, power(x, 2)), b)), (sign,))
        case "three unknowns":
            return Relation((add("a", mul(k, "b")), add(mul(3, "c"), rng.choice((0, 1)))), (sign,))
        case "order":
            low, middle, high = rng.choice(
                (("a", "b", "c"), ("x", "y", "z"), (0, "a", "b"), ("b", "a", 1), ("c", "a", "b"))
            )
            return Relation(
                tuple(num(part) if isinstance(part, int) else Sym(part) for part in (low, middle, high)),
                rng.choice((("<", "<"), ("<=", "<"), ("<", "<="))),
            )
    return Relation((num(-k), minus(x, y), num(k + abs(c))), ("<=", "<="))
