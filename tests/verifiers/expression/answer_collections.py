# ruff: noqa: RUF001 - answers in Unicode
"""Answers that have parts: sets of reals, points, matrices, and lists of answers."""

import math
from dataclasses import dataclass, replace
from random import Random

from answer_scalars import Raw, Writer
from answer_spelling import Style, write
from answer_trees import POSITIVE, Num, Tree, add, different, evaluate, mul, num, root


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
        return f"{left}{low}, {high}{right}" if style.braces else f"{left}{low},{high}{right}"

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
        text = style.spelled(r"\infty", "∞", "infinity" if style.braces else "inf")
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
                "symbol": lambda style: style.spelled(style.rng.choice((r"\emptyset", r"\varnothing")), "∅", "{}"),
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
            return style.word("or").join(parts) if style.braces or not style.latex else r" \lor ".join(parts)

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
            mutations["bound"] = with_piece(
                replace(
                    piece,
                    **{
                        end: add(bound, rng.choice((-1, 1)))
                        if not isinstance(bound, Num)
                        else Num(bound.value + rng.choice((-1, 1)))
                    },
                )
            )
            mutations["sign of bound"] = with_piece(replace(piece, **{end: mul(-1, bound)}))
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


@dataclass(frozen=True)
class AnswerList:
    """Several numbers that all answer the question, in any order; `kind` tells a set from a list of solutions."""

    numbers: tuple[Tree, ...]
    variable: str
    centre: Tree | None = None
    offset: Tree | None = None
    kind: str = "list"

    def forms(self, rng: Random) -> dict[str, Writer]:
        x = self.variable
        numbers = list(self.numbers)
        shuffled = rng.sample(numbers, len(numbers))

        def joined_by(items: list[Tree], separator: str, last: str = "", prefix: str = "") -> Writer:
            def write_list(style: Style) -> str:
                texts = [prefix + write(item, style) for item in items]
                if not last:
                    return separator.join(texts)
                return (
                    separator.join(texts[:-1]) + (rf" \text{{ {last} }} " if style.latex else f" {last} ") + texts[-1]
                )

            return write_list

        def braced(items: list[Tree]) -> Writer:
            return lambda style: (
                style.spelled(r"\{", "{", "{") + joined_by(items, ", ")(style) + style.spelled(r"\}", "}", "}")
            )

        forms: dict[str, Writer] = {
            "braces": braced(numbers),
            "braces, reordered": braced(shuffled),
            "membership": lambda style: f"{x} {style.spelled(chr(92) + 'in', '∈', 'in')} {braced(numbers)(style)}",
            "commas": joined_by(numbers, ", "),
            "commas, reordered": joined_by(shuffled, ", "),
            "and": joined_by(shuffled, ", ", "and"),
        }
        if self.kind == "list":
            forms |= {
                "or": joined_by(numbers, ", ", "or"),
                "each named": joined_by(shuffled, ", ", prefix=f"{x} = "),
                "each named, spaced": lambda style: (r",\ " if style.latex else ", ").join(
                    f"{x}={write(item, style)}" for item in numbers
                ),
                "each named, or": joined_by(shuffled, ", ", "or", prefix=f"{x} = "),
                "Chinese or": lambda style: (r"\text{或}" if style.latex else "或").join(
                    write(item, style) for item in numbers
                ),
            }
        if self.offset is not None:
            sign = lambda style: style.spelled(r"\pm ", "±", "±")  # noqa: E731
            centre = self.centre
            forms["plus-minus"] = lambda style: (
                (f"{write(centre, style)} " if centre != num(0) else "") + sign(style) + write(self.offset, style)
            )
            forms["named plus-minus"] = lambda style: f"{x} = {forms['plus-minus'](style)}"
        return forms

    def mutations(self, rng: Random) -> dict[str, "AnswerList | Raw"]:
        numbers, position = list(self.numbers), rng.randrange(len(self.numbers))
        rest = numbers[:position] + numbers[position + 1 :]
        changed = (
            add(numbers[position], 1)
            if not isinstance(numbers[position], Num)
            else Num(numbers[position].value + rng.choice((-1, 1)))
        )
        plain = replace(self, centre=None, offset=None)
        lists = {
            "changed member": [*rest, changed],
            "sign of a member": [*rest, mul(-1, numbers[position])],
            "added member": [*numbers, number(rng)],
        }
        if len(numbers) > 2:
            lists["dropped member"] = rest
        mutations: dict[str, AnswerList | Raw] = {
            name: replace(plain, numbers=tuple(members))
            for name, members in lists.items()
            if all(different(first, second) for place, first in enumerate(members) for second in members[:place])
        }
        latex, plain_style = Style("latex", rng), Style("ascii", rng)
        mutations["one of them"] = Raw(write(numbers[position], latex), write(numbers[position], plain_style))
        if self.kind == "set":
            tuples = [", ".join(write(item, style) for item in numbers) for style in (latex, plain_style)]
            mutations["tuple instead"] = Raw(f"({tuples[0]})", f"({tuples[1]})")
        return mutations

    def unequal(self, other: object) -> bool:
        if not isinstance(other, AnswerList):
            return isinstance(other, Raw)
        return len(self.numbers) != len(other.numbers) or any(
            all(different(mine, theirs) for theirs in other.numbers) for mine in self.numbers
        )


def draw_list(rng: Random) -> AnswerList:
    """Return two or three answers, some of them as plus-minus."""
    variable = rng.choice("xxxtkn")
    if rng.random() < 0.35:
        centre, offset = num(rng.choice((0, 0, 1, 2, -3))), root(rng.choice((2, 3, 5, 7)))
        if centre == num(0) and rng.random() < 0.5:
            offset = num(rng.randint(2, 9))
        ends = (
            (Num(centre.value + offset.value), Num(centre.value - offset.value))
            if isinstance(offset, Num)
            else (add(centre, offset), add(centre, mul(-1, offset)))
        )
        return AnswerList(ends, variable, centre, offset)
    return AnswerList(tuple(distinct(rng.choice((2, 2, 3)), rng)), variable)


def draw_set(rng: Random) -> AnswerList:
    return AnswerList(tuple(distinct(rng.choice((2, 3, 4)), rng)), rng.choice("xyn"), kind="set")


@dataclass(frozen=True)
class Point:
    """An ordered tuple; with `names`, the target says which unknown each entry is."""

    entries: tuple[Tree, ...]
    names: str = ""
    vector: bool = False
    kind = "point"

    def target_forms(self, forms: dict[str, Writer]) -> dict[str, Writer]:
        return {name: form for name, form in forms.items() if "named" in name} if self.names else forms

    def forms(self, rng: Random) -> dict[str, Writer]:
        def listed(style: Style) -> str:
            return (", " if style.braces else ",").join(write(entry, style) for entry in self.entries)

        def angled(style: Style) -> str:
            return style.spelled(r"\langle ", "⟨", "<") + listed(style) + style.spelled(r" \rangle", "⟩", ">")

        forms: dict[str, Writer] = {} if self.vector else {"parentheses": lambda style: style.parens(listed(style))}
        if self.vector:
            forms["angle brackets"] = angled
            forms["parentheses"] = lambda style: style.parens(listed(style))
        if self.names:
            order = rng.sample(range(len(self.entries)), len(self.entries))
            named = {"named tuple": lambda style: f"({','.join(self.names)}) = {style.parens(listed(style))}"}
            named["each named"] = lambda style: ", ".join(
                f"{self.names[place]} = {write(self.entries[place], style)}" for place in order
            )
            named["each named, and"] = lambda style: style.word("and").join(
                f"{self.names[place]} = {write(self.entries[place], style)}" for place in order
            )
            forms = named | forms
        return forms

    def mutations(self, rng: Random) -> dict[str, "Point | Raw"]:
        entries, position = self.entries, rng.randrange(len(self.entries))
        changed = (
            add(entries[position], 1) if not isinstance(entries[position], Num) else Num(entries[position].value + 1)
        )
        latex, plain = (
            ", ".join(write(entry, Style(dialect, rng)) for entry in entries) for dialect in ("latex", "ascii")
        )
        return {
            "order": replace(self, entries=entries[1:] + entries[:1]),
            "entry": replace(self, entries=(*entries[:position], changed, *entries[position + 1 :])),
            "sign of an entry": replace(
                self, entries=(*entries[:position], mul(-1, entries[position]), *entries[position + 1 :])
            ),
            "added entry": replace(self, entries=(*entries, num(1)), names=""),
            "dropped entry": replace(self, entries=entries[:-1], names="")
            if len(entries) > 2
            else Raw(write(entries[0], Style("latex", rng)), write(entries[0], Style("ascii", rng))),
            "set instead": Raw(rf"\{{{latex}\}}", f"{{{plain}}}"),
        }

    def unequal(self, other: object) -> bool:
        if not isinstance(other, Point):
            return isinstance(other, Raw)
        if len(self.entries) != len(other.entries):
            return True
        return any(different(mine, theirs) for mine, theirs in zip(self.entries, other.entries, strict=True))


def draw_point(rng: Random) -> Point:
    """Return a point, a vector, or the solution of a system."""
    count = rng.choice((2, 2, 3))
    entries = tuple(number(rng) for _ in range(count))
    if len({size(entry) for entry in entries}) < count:
        return draw_point(rng)
    names = rng.choice(("", "", "", "xyz"[:count], "abc"[:count]))
    return Point(entries, names, vector=not names and rng.random() < 0.2)


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers; with `name`, the target says `A = …`."""

    rows: tuple[tuple[Tree, ...], ...]
    name: str = ""
    kind = "matrix"

    def target_forms(self, forms: dict[str, Writer]) -> dict[str, Writer]:
        return {name: form for name, form in forms.items() if name.startswith("named") == bool(self.name)}

    def forms(self, rng: Random) -> dict[str, Writer]:
        def environment(name: str, rows: tuple[tuple[Tree, ...], ...] = self.rows) -> Writer:
            def write_rows(style: Style) -> str:
                if not style.latex:
                    return (
                        "["
                        + ", ".join("[" + ", ".join(write(entry, style) for entry in row) + "]" for row in rows)
                        + "]"
                    )
                ampersand, newline = (" & ", r" \\ ") if style.braces else ("&", r"\\")
                body = newline.join(ampersand.join(write(entry, style) for entry in row) for row in rows)
                if name == "array":
                    left, right = style.rng.choice((("(", ")"), ("[", "]")))
                    return rf"\left{left}\begin{{array}}{{{'c' * len(rows[0])}}} {body} \end{{array}}\right{right}"
                return rf"\begin{{{name}}} {body} \end{{{name}}}"

            return write_rows

        forms = {name: environment(name) for name in ("pmatrix", "bmatrix", "array")}
        if self.name:
            forms["named"] = lambda style: f"{self.name} = {forms['pmatrix'](style)}"
            forms["named with brackets"] = lambda style: f"{self.name} = {forms['bmatrix'](style)}"
        entries = [entry for row in self.rows for entry in row]
        if all(isinstance(entry, Num) for entry in entries):
            common = math.lcm(*(entry.value.denominator for entry in entries))
            if common > 1:
                inner = environment(
                    "pmatrix", tuple(tuple(Num(entry.value * common) for entry in row) for row in self.rows)
                )
                forms["common factor"] = lambda style: (
                    (rf"\frac{{1}}{{{common}}} " if style.latex else f"1/{common} * ") + inner(style)
                )
        return forms

    def mutations(self, rng: Random) -> dict[str, "Matrix | Raw"]:
        rows = self.rows
        row, column = rng.randrange(len(rows)), rng.randrange(len(rows[0]))
        entry = rows[row][column]

        def with_entry(value: Tree) -> Matrix:
            changed = tuple(value if place == column else old for place, old in enumerate(rows[row]))
            return replace(self, rows=(*rows[:row], changed, *rows[row + 1 :]))

        flat = [write(value, Style("latex", rng)) for values in rows for value in values]
        mutations: dict[str, Matrix | Raw] = {
            "entry": with_entry(Num(entry.value + 1) if isinstance(entry, Num) else add(entry, 1)),
            "sign of an entry": with_entry(mul(-1, entry)),
            "transposed": replace(self, rows=tuple(zip(*rows, strict=True))),
            "rows swapped": replace(self, rows=rows[::-1]),
            "columns swapped": replace(self, rows=tuple(values[::-1] for values in rows)),
            "scaled": replace(self, rows=tuple(tuple(mul(2, value) for value in values) for values in rows)),
        }
        if len(rows) > 1:
            mutations["dropped row"] = replace(self, rows=rows[1:])
            if len(rows[0]) > 1 and all(text.lstrip("-").isdigit() for text in flat):
                mutations["entries in a tuple"] = Raw(f"({', '.join(flat)})", f"({', '.join(flat)})")
        if len(rows) == len(rows[0]) > 1:
            body = r" \\ ".join(" & ".join(write(value, Style("latex", rng)) for value in values) for values in rows)
            mutations["determinant"] = Raw(
                rf"\begin{{vmatrix}} {body} \end{{vmatrix}}", rf"$\begin{{vmatrix}} {body} \end{{vmatrix}}$"
            )
        return mutations

    def unequal(self, other: object) -> bool:
        if not isinstance(other, Matrix):
            return isinstance(other, Raw)
        if (len(self.rows), len(self.rows[0])) != (len(other.rows), len(other.rows[0])):
            return True
        return any(
            different(mine, theirs)
            for left, right in zip(self.rows, other.rows, strict=True)
            for mine, theirs in zip(left, right, strict=True)
        )


def draw_matrix(rng: Random) -> Matrix:
    height, width = rng.choice(((2, 2), (2, 2), (2, 3), (3, 3), (3, 1), (2, 1)))
    denominator = rng.choice((1, 1, 1, 2, 3))
    rows = tuple(
        tuple(num(rng.randint(-9, 9), denominator) if rng.random() < 0.9 else number(rng) for _ in range(width))
        for _ in range(height)
    )
    return Matrix(rows, rng.choice(("", "", "A", "M", "B")))
