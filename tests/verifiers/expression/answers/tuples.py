"""Answers of several parts: sets and lists of answers, points, matrices."""

import math
from dataclasses import dataclass, replace
from random import Random

from answers.numbers import Raw, Writer
from answers.real_sets import distinct, number, size
from answers.spelling import Style, write
from answers.trees import Num, Tree, add, different, minus, mul, num, root, shift


@dataclass(frozen=True)
class AnswerList:
    """Several numbers that all answer the question, in any order; `kind` tells a set from a list of solutions."""

    numbers: tuple[Tree, ...]
    variable: str
    centre: Tree | None = None
    offset: Tree | None = None
    kind: str = "list"

    def target_forms(self, forms: dict[str, Writer]) -> dict[str, Writer]:
        names = ("braces", "membership") if self.kind == "set" else tuple(forms)
        return {name: form for name, form in forms.items() if name in names}

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
            centre = self.centre

            def plus_minus(style: Style) -> str:
                sign, offset = style.spelled(r"\pm ", "±", "±"), write(self.offset, style)
                return f"{sign}{offset}" if centre == num(0) else f"{write(centre, style)} {sign.strip()} {offset}"

            forms["plus-minus"] = plus_minus
            forms["named plus-minus"] = lambda style: f"{x} = {plus_minus(style)}"
        return forms

    def mutations(self, rng: Random) -> dict[str, "AnswerList | Raw"]:
        numbers, position = list(self.numbers), rng.randrange(len(self.numbers))
        rest = numbers[:position] + numbers[position + 1 :]
        changed = shift(numbers[position], rng.choice((-1, 1)))
        plain = replace(self, centre=None, offset=None)
        lists = {
            "changed member": [*rest, changed],
            "sign of a member": [*rest, minus(num(0), numbers[position])],
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
        names = [name for name in forms if "named" in name] if self.names else list(forms)[:1]
        return {name: forms[name] for name in names}

    def forms(self, rng: Random) -> dict[str, Writer]:
        def listed(style: Style) -> str:
            return (", " if style.careful else ",").join(write(entry, style) for entry in self.entries)

        def angled(style: Style) -> str:
            return style.spelled(r"\langle ", "⟨", "<") + listed(style) + style.spelled(r" \rangle", "⟩", ">")

        forms: dict[str, Writer] = {} if self.vector else {"parentheses": lambda style: style.parens(listed(style))}
        if self.vector:
            forms["angle brackets"] = angled
            forms["parentheses"] = lambda style: style.parens(listed(style))
        if self.names:
            equations = [
                lambda style, name=name, entry=entry: f"{name} = {write(entry, style)}"
                for name, entry in zip(self.names, self.entries, strict=True)
            ]
            shuffled = rng.sample(equations, len(equations))
            named = {
                "named tuple": lambda style: f"({','.join(self.names)}) = {style.parens(listed(style))}",
                "each named": lambda style: ", ".join(equation(style) for equation in equations),
                "each named, reordered": lambda style: ", ".join(equation(style) for equation in shuffled),
                "each named, and": lambda style: style.word("and").join(equation(style) for equation in equations),
            }
            forms = named | forms
        return forms

    def mutations(self, rng: Random) -> dict[str, "Point | Raw"]:
        entries, position = self.entries, rng.randrange(len(self.entries))
        changed = shift(entries[position], 1)
        latex, plain = (
            ", ".join(write(entry, Style(dialect, rng)) for entry in entries) for dialect in ("latex", "ascii")
        )
        return {
            "order": replace(self, entries=entries[1:] + entries[:1]),
            "entry": replace(self, entries=(*entries[:position], changed, *entries[position + 1 :])),
            "sign of an entry": replace(
                self, entries=(*entries[:position], minus(num(0), entries[position]), *entries[position + 1 :])
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
                ampersand, newline = (" & ", r" \\ ") if style.careful else ("&", r"\\")
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
            "entry": with_entry(shift(entry, 1)),
            "sign of an entry": with_entry(minus(num(0), entry)),
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
