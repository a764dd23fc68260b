"""Typed answers: classes of values that a text can hold, such as numbers, sets and words."""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

from rubricworks.verifiers.expression.trees import Tree, symbols
from rubricworks.verifiers.expression.units import Unit


@dataclass(frozen=True, slots=True)
class Word:
    """Text without a value, in one spelling; a formula or relation that equals nothing but its own form, too."""

    text: str
    phrase: bool = False
    """Several words, or words and numbers: it may be a sentence that states a value."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A letter and the text of its option."""

    letter: str
    text: str


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, an expression with free symbols, or a quantity: one of these with a unit or the things counted."""

    tree: Tree
    word: str | None = None
    """The letters, case folded, if the answer is nothing but letters: an option, or a product."""
    places: int | None = None
    """Decimals, if the answer is a plain decimal; -1 if decimals stand somewhere inside."""
    unit: Unit | None = None
    noun: str | None = None
    """The things that it counts, in the singular: apple, red circle."""
    other: "Answer | None" = None
    """Another reading: 5m as a product, 1,2 as a list."""


@dataclass(frozen=True, slots=True)
class Range:
    """Two ends in prose or with a dash: 3-5, from 3 to 5."""

    low: "Answer"
    high: "Answer"


@dataclass(frozen=True, slots=True)
class Listing:
    """Several answers: a list, a set, a tuple, a vector, the cases of a function."""

    kind: str
    """"bare", "{}", "and" (of relations), "or" (letters, unknowns), "cases", "family" (for every integer), unordered;
    "()" (tuples, intervals), "[]".
    """
    items: tuple["Answer", ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """An interval, or a point where the ends are one; None is infinity."""

    low: Amount | None
    high: Amount | None
    with_low: bool
    with_high: bool

    @property
    def is_point(self) -> bool:
        return self.with_low and self.with_high and self.low is not None and self.low == self.high

    @property
    def is_constant(self) -> bool:
        """The ends are numbers."""
        return not any(end and symbols(end.tree) - {"\\pi", "e"} for end in (self.low, self.high))


@dataclass(frozen=True, slots=True)
class Region:
    """A union of intervals and points, or the solutions of a relation in one unknown."""

    pieces: tuple[Piece, ...]
    unknown: str | None = None


@dataclass(frozen=True, slots=True)
class Matrix:
    rows: tuple[tuple[Amount, ...], ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """A name and its value: x = 5, A = {1, 2}, f(x) = x + 1."""

    name: str
    value: "Answer"
    left: Tree | None = None
    """The name as a formula, if it is one."""
    parameters: tuple[str, ...] = ()
    """Parameters of a function; their names do not matter."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation that is not solved for a name, by the difference of its sides to zero."""

    sign: str
    """=, <, <= or !=."""
    difference: Tree


Answer = Word | Choice | Amount | Range | Listing | Region | Matrix | Assignment | Relation


def with_trees(value: Any, change: Callable[[Tree], Tree]) -> Any:
    """The value with every formula in it changed."""
    if isinstance(value, Amount):
        other = value.other and with_trees(value.other, change)
        return replace(value, tree=change(value.tree), other=other)
    if isinstance(value, Relation):
        return replace(value, difference=change(value.difference))
    if isinstance(value, tuple):
        return tuple(with_trees(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, Word | Choice):
        skipped = ("left", "parameters", "name")
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in skipped}
        return replace(cast(Any, value), **{name: with_trees(part, change) for name, part in parts.items()})
    return value
