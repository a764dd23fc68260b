# ruff: noqa: RUF001 - answers in Unicode
"""Sets of reals: intervals and their unions, all reals, the empty set."""

import math
from dataclasses import dataclass, replace
from random import Random

from answers.numbers import Raw, Writer
from answers.spelling import Style, write
from answers.trees import POSITIVE, Tree, different, evaluate, minus, mul, num, root, shift


def number(rng: Random) -> Tree:
    """Return a real number as it occurs in points and bounds."""
    kind = rng.random()
    if kind < 0.65:
        return num(rng.randint(-9, 12))
    if kind < 0.85:
        return num(rng.randint(-9, 9), rng.choice((2, 3, 4, 5)))
    return mul(rng.choice((-1, 1, 2)), root(rng.choice((2, 3, 5))))


def size(tree: Tree) -> float:
    return evaluate(tree, POSITIVE[0]).real


def distinct(count: int, rng: Random) -> list[Tree]:
    """Return ascending numbers that differ clearly."""
    numbers: list[Tree] = []
    while len(numbers) < count:
        candidate = number(rng)
        if all(different(candidate, other) for other in numbers):
            numbers.append(candidate)
    return sorted(numbers, key=size)


INFINITY = math.inf
Bound = Tree | float


@dataclass(frozen=True)
class Piece:
    """A connected part of a set of reals."""

    low: Bound
    high: Bound
    low_closed: bool = False
    high_closed: bool = False

    @property
    def key(self) -> tuple[float, float, bool, bool]:
        ends = [bound if isinstance(bound, float) else size(bound) for bound in (self.low, self.high)]
        return round(ends[0], 9), round(ends[1], 9), self.low_closed, self.high_closed

    def interval(self, style: Style) -> str:
        low, high = bound_text(self.low, style), bound_text(self.high, style)
        left, right = "[" if self.low_closed else "(", "]" if self.high_closed else ")"
        if style.left_right:
            left, right = rf"\left{left}", rf"\right{right}"
        return f"{left}{low}, {high}{right}" if style.careful else f"{left}{low},{high}{right}"

    def inequality(self, name: str, style: Style, flipped: bool) -> str:
        below, above = "<=" if self.low_closed else "<", "<=" if self.high_closed else "<"
        if self.low == -INFINITY or self.high == INFINITY:
            bound = bound_text(self.low if self.high == INFINITY else self.high, style)
            upward = self.high == INFINITY
            sign = (below if upward else above).replace("<", ">") if upward != flipped else (below if upward else above)
            return bound + style.relation(sign) + name if flipped else name + style.relation(sign) + bound
        if flipped:
            above, below = above.replace("<", ">"), below.replace("<", ">")
            return (
                bound_text(self.high, style)
                + style.relation(above)
                + name
                + style.relation(below)
                + bound_text(self.low, style)
            )
        return (
            bound_text(self.low, style)
            + style.relation(below)
            + name
            + style.relation(above)
            + bound_text(self.high, style)
        )


def bound_text(bound: Bound, style: Style) -> str:
    if isinstance(bound, float):
        text = style.spelled(r"\infty", "∞", "infinity" if style.careful else "inf")
        return f"-{text}" if bound < 0 else f"+{text}" if style.coefficient_first and style.latex else text
    return write(bound, style)


@dataclass(frozen=True)
class RealSet:
    """A union of intervals. With `named`, the target states the variable; the answer need not."""

    pieces: tuple[Piece, ...]
    variable: str
    named: bool = False
    only_named: bool = False
    kind = "interval"

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = self.all_forms(rng)
        names = ("membership", "inequalities", "two inequalities", "Chinese or") if self.only_named else tuple(forms)
        return {name: form for name, form in forms.items() if name in names}

    def target_forms(self, forms: dict[str, Writer]) -> dict[str, Writer]:
        names = ("inequalities", "membership") if self.named else ("intervals", "intervals", "symbol", "set builder")
        return {name: form for name, form in forms.items() if name in names}

    def all_forms(self, rng: Random) -> dict[str, Writer]:
        x = self.variable
        if not self.pieces:
            return {
                "symbol": lambda style: style.spelled(style.rng.choice((r"\emptyset", r"\varnothing")), "∅", "∅"),
                "empty braces": lambda style: style.spelled(r"\{\}", "{}", "{ }"),
                "membership": lambda style: style.spelled(rf"{x} \in \emptyset", f"{x} ∈ ∅", f"{x} ∈ ∅"),
            }
        if self.pieces == (Piece(-INFINITY, INFINITY),):
            return {
                "symbol": lambda style: style.spelled(r"\mathbb{R}", "ℝ", "(-infinity, infinity)"),
                "intervals": self.pieces[0].interval,
                "in words": lambda style: style.spelled(
                    r"\text{all real numbers}", "all real numbers", "all real numbers"
                ),
                "membership": lambda style: style.spelled(
                    rf"{x} \in \mathbb{{R}}", f"{x} ∈ ℝ", f"{x} ∈ (-infinity, infinity)"
                ),
            }
        pieces = list(self.pieces)
        shuffled = rng.sample(pieces, len(pieces))
        flipped = rng.random() < 0.3

        def intervals(style: Style) -> str:
            return style.spelled(r" \cup ", " ∪ ", " U ").join(piece.interval(style) for piece in pieces)

        def inequalities(style: Style) -> str:
            parts = [piece.inequality(x, style, flipped and len(pieces) == 1) for piece in pieces]
            return style.word("or").join(parts) if style.careful or not style.latex else r" \lor ".join(parts)

        forms: dict[str, Writer] = {
            "intervals": intervals,
            "membership": lambda style: f"{x} {style.spelled(chr(92) + 'in', '∈', 'in')} {intervals(style)}",
            "inequalities": inequalities,
            "set builder": lambda style: (
                style.spelled(r"\{", "{", "{")
                + f"{x} {style.spelled(chr(92) + 'mid', '|', '|')} {inequalities(style)}"
                + style.spelled(r"\}", "}", "}")
            ),
        }
        if len(pieces) > 1:
            forms["pieces reordered"] = lambda style: style.spelled(r"\cup", "∪", "U").join(
                piece.interval(style) for piece in shuffled
            )
            forms["Chinese or"] = lambda style: (r"\text{或}" if style.latex else "或").join(
                piece.inequality(x, style, False) for piece in pieces
            )
        elif not any(isinstance(bound, float) for bound in (pieces[0].low, pieces[0].high)):
            halves = (
                Piece(pieces[0].low, INFINITY, pieces[0].low_closed),
                Piece(-INFINITY, pieces[0].high, False, pieces[0].high_closed),
            )
            forms["two inequalities"] = lambda style: style.word("and").join(
                half.inequality(x, style, False) for half in halves
            )
        if (
            len(pieces) == 2
            and pieces[0].key[1] == pieces[1].key[0]
            and pieces[0].key[0] == -INFINITY
            and pieces[1].key[1] == INFINITY
        ):
            gap = pieces[0].high
            forms["complement"] = lambda style: (
                style.spelled(r"\mathbb{R} \setminus \{", "ℝ \\ {", "R \\ {")
                + bound_text(gap, style)
                + style.spelled(r"\}", "}", "}")
            )
            forms["inequalities"] = lambda style: x + style.relation("!=") + bound_text(gap, style)
        return forms

    def mutations(self, rng: Random) -> dict[str, "RealSet"]:
        mutations: dict[str, RealSet] = {}
        if not self.pieces or self.pieces == (Piece(-INFINITY, INFINITY),):
            bound = number(rng)
            return {
                "half of the line": replace(self, pieces=(Piece(bound, INFINITY),)),
                "single gap": replace(self, pieces=(Piece(-INFINITY, bound), Piece(bound, INFINITY))),
            }
        position = rng.randrange(len(self.pieces))
        piece = self.pieces[position]

        def with_piece(*changed: Piece) -> RealSet:
            return replace(self, pieces=self.pieces[:position] + changed + self.pieces[position + 1 :])

        for end in ("low", "high"):
            bound = getattr(piece, end)
            if isinstance(bound, float):
                continue
            mutations["bracket"] = with_piece(replace(piece, **{f"{end}_closed": not getattr(piece, f"{end}_closed")}))
            mutations["bound"] = with_piece(replace(piece, **{end: shift(bound, rng.choice((-1, 1)))}))
            mutations["sign of bound"] = with_piece(replace(piece, **{end: minus(num(0), bound)}))
            if len(self.pieces) == 1:
                opposite = {
                    "low": Piece(-INFINITY, bound, False, piece.low_closed),
                    "high": Piece(bound, INFINITY, piece.high_closed),
                }[end]
                mutations["other side"] = with_piece(opposite)
            if rng.random() < 0.5:
                break
        if len(self.pieces) > 1:
            mutations["dropped piece"] = with_piece()
            first, last = self.pieces
            mutations["gap instead"] = replace(
                self, pieces=(Piece(first.high, last.low, not first.high_closed, not last.low_closed),)
            )
        if self.named:
            mutations["variable"] = replace(
                self, variable={"x": "y", "m": "n", "a": "b", "t": "x", "k": "a"}[self.variable], only_named=True
            )
        return {
            name: value
            for name, value in mutations.items()
            if all(piece.key[0] < piece.key[1] for piece in value.pieces)
            and len(joined(value.pieces)) == len(value.pieces)
        }

    def unequal(self, other: object) -> bool:
        if not isinstance(other, RealSet):
            return isinstance(other, Raw)
        return joined(self.pieces) != joined(other.pieces) or (
            self.named and other.only_named and self.variable != other.variable
        )


def joined(pieces: tuple[Piece, ...]) -> list[tuple[float, float, bool, bool]]:
    """Return a canonical form: sorted pieces, those that touch or overlap made one."""
    result: list[tuple[float, float, bool, bool]] = []
    for low, high, low_closed, high_closed in sorted(
        (piece.key for piece in pieces), key=lambda key: (key[0], not key[2])
    ):
        if result and (low < result[-1][1] or (low == result[-1][1] and (low_closed or result[-1][3]))):
            before = result.pop()
            high, high_closed = max((before[1], before[3]), (high, high_closed))
            low, low_closed = before[0], before[2]
        result.append((low, high, low_closed, high_closed))
    return result


def draw_real_set(rng: Random) -> RealSet:
    """Return a random set of reals."""
    variable, named = rng.choice("xxmatk"), rng.random() < 0.5
    a, b = distinct(2, rng)
    closed, other = rng.random() < 0.5, rng.random() < 0.5
    match rng.choice(("half", "half", "half", "two-sided", "two-sided", "outside", "punctured", "special")):
        case "half":
            piece = Piece(a, INFINITY, closed) if other else Piece(-INFINITY, a, False, closed)
            return RealSet((piece,), variable, named)
        case "two-sided":
            return RealSet((Piece(a, b, closed, other),), variable, named)
        case "outside":
            return RealSet((Piece(-INFINITY, a, False, closed), Piece(b, INFINITY, closed)), variable, named)
        case "punctured":
            return RealSet((Piece(-INFINITY, a), Piece(a, INFINITY)), variable, named)
    return RealSet(() if closed else (Piece(-INFINITY, INFINITY),), variable)
