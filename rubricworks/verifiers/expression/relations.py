"""Equations and inequalities: what they are solved for, their solutions, and when two have the same ones.

Two relations are equal if they have the same unknowns and the same solutions: one difference of sides is a constant
times the other (positive, for inequalities), or, for equations between quotients of polynomials, each vanishes where
the other does. Their truth value never counts: a relation that is always true, or never, has no unknown left and is
equal to its own form only.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from rubricworks.verifiers.expression.amounts import formula_tree
from rubricworks.verifiers.expression.arithmetic import Value, is_exact, is_real, number_of
from rubricworks.verifiers.expression.numeric import Point, agree, constant_value, depends_on, same_values, values_at
from rubricworks.verifiers.expression.polynomials import NEARLY_ZERO, fraction_in, polynomial_roots, value_at
from rubricworks.verifiers.expression.tokens import TooHard
from rubricworks.verifiers.expression.trees import CONSTANTS, Tree, symbols
from rubricworks.verifiers.expression.values import Amount, Answer, Assignment, Listing, Piece, Region, Relation
from rubricworks.verifiers.expression.words import DOUBTS

_UPRIGHT = re.compile(r"\\(?:frac|overline|angle|triangle|widehat|overrightarrow)|[{}|:\s]|_(?:\w|\{[^{}]*\})")
_LABEL = re.compile(r"[A-Z]+")
_CHANGE = re.compile(r"\\Delta\s*[A-Za-z](?:_(?:\w|\{\w+\}))?")
_WORDS = re.compile(r"(?=.*[A-Za-z])[^-+*^=<>\d.:$]*")
_SENTENCE = re.compile(r"\b(?:is|are|was|were|be|that|find|get|have|so|then|when|if|for|where|with)\b", re.IGNORECASE)
_SHORT_WORDS = {"ans", "sum", "age", "avg", "net"}


class Name(NamedTuple):
    text: str
    tree: Tree | None
    parameters: tuple[str, ...] = ()


def name_of(side: str, fold: bool) -> Name | None:
    """The name that a side of an equation is: x, f(x), a_n, (x, y), AB, area; None for a formula."""
    if not side.isascii() or not side or DOUBTS.search(side) or _SENTENCE.search(side):
        return None
    text = "".join(side.split())
    text = text.casefold() if fold else text
    is_label = _LABEL.fullmatch(_UPRIGHT.sub("", side)) is not None or _CHANGE.fullmatch(side) is not None
    try:
        tree = formula_tree(side, fold=fold)
    except TooHard:
        return Name(text, None) if _WORDS.fullmatch(side) or is_label else None
    if tree[0] == "s":
        return None if tree[1] in (*CONSTANTS, "\\infty") else Name(tree[1], tree)
    if tree[0] == "call":
        names = [part[1] for part in tree[2:] if part[0] == "s" and part[1] not in CONSTANTS]
        if tree[1].isalpha() and len(names) == len(tree) - 2 == len(set(names)):
            return Name(tree[1], tree, tuple(names))
        return Name(text, tree)
    return Name(text, tree) if is_label or side.lower() in _SHORT_WORDS else None


def is_constant(tree: Tree) -> bool:
    return not symbols(tree) - CONSTANTS


def relation_of(sign: str, left: Tree, right: Tree) -> Relation | None:
    """The relation as a difference; None if no unknown is left in it."""
    if sign[0] == ">":
        sign, left, right = sign.replace(">", "<"), right, left
    difference = ("+", left, ("-", right))
    return Relation(sign, difference) if unknowns(difference) else None


def unknowns(tree: Tree) -> frozenset[str]:
    """The variables, and the unknown functions, that the value depends on."""
    return frozenset(name for name in symbols(tree) - CONSTANTS if depends_on(tree, name))


def as_relation(answer: Assignment) -> Relation | None:
    if answer.left is None or not isinstance(answer.value, Amount) or answer.value.unit or answer.value.noun:
        return None
    return relation_of("=", answer.left, answer.value.tree)


def as_relations(region: Region) -> tuple[Answer, ...]:
    """Convert an interval of one unknown, such as a < x < b, to a relation for each of its ends; empty for anything
    else.
    """
    if len(region.pieces) != 1 or region.unknown is None:
        return ()
    (piece,), unknown = region.pieces, ("s", region.unknown)
    ends = ((piece.low, piece.with_low, False), (piece.high, piece.with_high, True))
    sides = [
        ("<=" if closed else "<", *((unknown, end.tree) if above else (end.tree, unknown)))
        for end, closed, above in ends
        if end is not None
    ]
    return tuple(relation for side in sides if (relation := relation_of(*side)))


def same_solutions(a: Relation, b: Relation) -> bool | None:
    """Compare relations by their solutions; None if that is not settled."""
    names = unknowns(a.difference)
    if a.sign != b.sign or names != unknowns(b.difference):
        return False
    ratio = _ratio(a.difference, b.difference)
    if ratio is not None:
        return bool(is_real(ratio) and (a.sign in ("=", "!=") or constant_sign(ratio) > 0))
    if a.sign in ("=", "!="):
        first, second = a.difference, b.difference
        return _vanishes_where(first, second, names) and _vanishes_where(second, first, names)
    return False


def _ratio(a: Tree, b: Tree) -> Value | None:
    """The number that b is multiplied by to give a, if there is one."""
    for kind, numbers in (("real", range(10)), ("complex", range(5))):
        ratios: list[Value] = []
        for number in numbers:
            values = values_at(a, b, Point(number, kind))
            if values is None:
                continue
            if isinstance(values, bool):
                return None
            x, y = map(number_of, values)
            if x == 0 or y == 0:
                return None
            ratios.append(x / y)
            if not agree(ratios[0], ratios[-1]):
                return None
        if len(ratios) >= 3:
            return ratios[0]
    return None


def _vanishes_where(f: Tree, g: Tree, names: frozenset[str]) -> bool:
    """Return True if g is zero, and has a value, where f is zero: in each variable, the others at random."""
    for name in names:
        for number in range(2, 5):
            point = Point(number, "any")
            (top, bottom), (of_g, below_g) = (fraction_in(tree, name, point) for tree in (f, g))
            roots = [root for root in polynomial_roots(top) if abs(value_at(bottom, root)) > NEARLY_ZERO]
            for root in roots:
                size = max(abs(factor * root**power) for power, factor in enumerate(map(number_of, of_g)))
                if abs(value_at(of_g, root)) > 1e-20 * max(size, 1) or abs(value_at(below_g, root)) < NEARLY_ZERO:
                    return False
            if not roots:
                return False
    return True


def same_constants(a: Tree, b: Tree) -> bool:
    return bool(same_values(a, b))


def half_line(sign: str, bound: Amount, unknown: str | None) -> Region:
    """The solutions of x < 5 and the like."""
    closed = sign[-1] == "=" and sign[0] != "!"
    pieces = {
        "<": (Piece(None, bound, False, closed),),
        ">": (Piece(bound, None, closed, False),),
        "!": (Piece(None, bound, False, False), Piece(bound, None, False, False)),
    }
    return Region(pieces[sign[0]], unknown)


def linear_region(relation: Relation) -> Region | None:
    """The solutions, if the relation is linear in its one unknown."""
    names = unknowns(relation.difference)
    (name,) = names if len(names) == 1 else ("",)
    try:
        top, bottom = fraction_in(relation.difference, name, Point(0, "any"))
    except TooHard:
        return None
    if not name or len(top) != 2 or len(bottom) != 1:
        return None
    bound = _end_at(number_of(-top[0]) / number_of(top[1]) if not is_exact(*top) else Fraction(-top[0]) / top[1])
    if relation.sign == "=":
        return Region((Piece(bound, bound, True, True),), name)
    below = constant_sign(top[1]) * constant_sign(bottom[0]) > 0
    return half_line(relation.sign if below else relation.sign.replace("<", ">"), bound, name)


def _end_at(number: Value) -> Amount:
    return Amount(("n" if isinstance(number, int | Fraction) else "digits", number))


def as_region(answer: Answer) -> Region | None:
    """The answer as a set of real numbers, if it is one."""
    if isinstance(answer, Region):
        return answer
    if isinstance(answer, Relation):
        return solved(answer)
    if isinstance(answer, Assignment):
        region = as_region(answer.value)
        return region and replace(region, unknown=answer.name)
    if isinstance(answer, Amount):
        return _points((answer,), None)
    if not isinstance(answer, Listing):
        return None
    if answer.kind == "()":
        low, high = answer.items if len(answer.items) == 2 else (None, None)
        return (
            Region((Piece(low, high, False, False),)) if isinstance(low, Amount) and isinstance(high, Amount) else None
        )
    names = {item.name if isinstance(item, Assignment) else None for item in answer.items}
    values = tuple(item.value if isinstance(item, Assignment) else item for item in answer.items)
    return _points(values, names.pop()) if answer.kind in ("bare", "{}") and len(names) == 1 else None


def _points(items: tuple[Answer, ...], unknown: str | None) -> Region | None:
    pieces = tuple(Piece(item, item, True, True) for item in items if isinstance(item, Amount))
    return Region(pieces, unknown) if pieces and len(pieces) == len(items) else None


def solved(relation: Relation) -> Region | None:
    """The solutions in one unknown, where they are found: linear ones, |linear| against a number."""
    names = unknowns(relation.difference)
    if len(names) != 1:
        return None
    (name,) = names
    try:
        return _absolute(relation, name) or linear_region(relation)
    except TooHard:
        return None


def _absolute(relation: Relation, name: str) -> Region | None:
    """|x - 2| < 3 and 3 < |x - 2|, from the difference of the two sides."""
    _, left, (_, right) = relation.difference
    outside = right[0] == "abs"
    inner, limit = (right, left) if outside else (left, right)
    if inner[0] != "abs" or not is_constant(limit) or relation.sign not in ("<", "<="):
        return None
    if constant_sign(constant_value(limit)) <= 0:
        return None
    ends = (("+", inner[1], ("-", limit)), ("+", ("-", limit), ("-", inner[1])))
    parts = [linear_region(Relation(relation.sign, ("-", end) if outside else end)) for end in ends]
    if parts[0] is None or parts[1] is None:
        return None
    return union(parts[0], parts[1]) if outside else intersection(parts[0], parts[1])


def constant_sign(number: Value) -> int:
    """The sign of a real number.

    Raises:
        TooHard: it is not real.
    """
    if not is_real(number_of(number)):
        raise TooHard("no real number")
    part = number_of(number).real
    return int(part > 0) - int(part < 0)


def union(*regions: Region) -> Region | None:
    """One region, its pieces in order and apart; None if they cannot be ordered."""
    try:
        ordered = sorted((piece for region in regions for piece in region.pieces), key=_start)
    except TooHard:
        return None
    pieces = ordered[:1]
    for piece in ordered[1:]:
        last = pieces[-1]
        (end, last_closed), (start, _) = _end(last), _start(piece)
        if end < start or (end == start and not (last_closed or piece.with_low)):
            pieces.append(piece)
        elif _end(piece) > _end(last):
            pieces[-1] = Piece(last.low, piece.high, last.with_low, piece.with_high)
    return Region(tuple(pieces), regions[0].unknown)


def intersection(a: Region, b: Region) -> Region | None:
    """The common part; None if it is empty, or not known."""
    pieces = []
    try:
        for x in a.pieces:
            for y in b.pieces:
                low, high = max(x, y, key=_start), min(x, y, key=_end)
                (start, opened), (end, closed) = _start(low), _end(high)
                if start < end or (start == end and not opened and closed):
                    pieces.append(Piece(low.low, high.high, low.with_low, high.with_high))
    except TooHard:
        return None
    return Region(tuple(pieces), a.unknown) if pieces else None


def _start(piece: Piece) -> tuple[Value, int]:
    return (_position(piece.low, float("-inf")), int(not piece.with_low))


def _end(piece: Piece) -> tuple[Value, int]:
    return (_position(piece.high, float("inf")), int(piece.with_high))


def _position(end: Amount | None, infinite: float) -> Value:
    if end is None:
        return infinite
    number = constant_value(end.tree)
    constant_sign(number)
    return number_of(number).real


def same_regions(a: Region, b: Region, same_ends: Callable[[Amount, Amount], bool | None]) -> bool | None:
    """Compare the pieces one by one, sorted where the ends are numbers."""
    if None not in (a.unknown, b.unknown) and a.unknown != b.unknown:
        return False
    ordered_a, ordered_b = union(a), union(b)
    if (ordered_a is None) != (ordered_b is None):
        return False
    first, second = (ordered_a or a).pieces, (ordered_b or b).pieces
    if len(first) != len(second):
        return False
    outcomes = [_same_pieces(x, y, same_ends) for x, y in zip(first, second, strict=True)]
    return False if False in outcomes else None if None in outcomes else True


def _same_pieces(a: Piece, b: Piece, same_ends: Callable[[Amount, Amount], bool | None]) -> bool | None:
    if (a.with_low, a.with_high) != (b.with_low, b.with_high):
        return False
    outcomes = []
    for x, y in ((a.low, b.low), (a.high, b.high)):
        if (x is None) != (y is None):
            return False
        outcomes.append(True if x is None or y is None else same_ends(x, y))
    return False if False in outcomes else None if None in outcomes else True
