"""Equality of two typed answers; None if only SymPy can decide.

The table, by kinds: words and choices by letters; amounts by value and unit; ranges by their ends; regions, sets and
lists by their members; matrices by their entries; relations by their solutions; a named value is its value where the
other side has no name. Every other pair is different.
"""

import re
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

from rubricworks.verifiers.expression.numeric import decimal_value, same_values
from rubricworks.verifiers.expression.relations import (
    as_region,
    as_relation,
    as_relations,
    same_regions,
    same_solutions,
)
from rubricworks.verifiers.expression.tokens import TooHard
from rubricworks.verifiers.expression.trees import CALCULUS, Tree, kind_count, renamed, symbols
from rubricworks.verifiers.expression.units import DEGREES, RADIANS
from rubricworks.verifiers.expression.values import (
    Amount,
    Answer,
    Assignment,
    Choice,
    Listing,
    Matrix,
    Range,
    Region,
    Relation,
    Word,
    with_trees,
)
from rubricworks.verifiers.expression.words import same_letters

ENOUGH_PLACES = 6
"""A decimal of so many places and digits stands for what it is rounded from: 0.333333 is 1/3, 0.333 is not."""
_CONTEXT = Context(prec=60)
_MOST_DIGITS, _LARGEST = 40, 30
"""Digits of a decimal after the point, and before it."""
_RADIAN: Tree = ("/", ("s", "\\pi"), ("n", 180))
"""One degree."""
_MOST_MEMBERS = 20
_VARIABLES = set("nmkrstuvwxyz")
"""Variables of a constant function."""
_DERIVATIVE = re.compile(r"D\d (\S+)")


def same(a: Answer, b: Answer) -> bool | None:
    """Compare a target and an answer by the table above."""
    if (
        isinstance(a, Listing)
        and a.kind == "bare"
        and _named(b)
        and not any(isinstance(i, Assignment) for i in a.items)
    ):
        return False  # 1, 2 are values of one unknown, x = 1, y = 2 of two
    try:
        return _same(a, b)
    except (TooHard, RecursionError, ArithmeticError, ValueError, TypeError):
        return False


_ORDER = (Assignment, Relation, Word, Choice, Range, Matrix, Region, Listing, Amount)


def _same(a: Answer, b: Answer) -> bool | None:
    for this, other in ((a, b), (b, a)):
        if isinstance(this, Amount) and this.other is not None:
            if isinstance(this.other, Listing) and getattr(other, "places", None) is None:
                return _same(this.other, other)  # 1,25 is 1.25 beside a decimal only
            return _any(_same(replace(this, other=None), other), _same(this.other, other))
    if (named := _named(a)) and (others := _named(b)):
        return named.keys() == others.keys() and _all(*(_same(value, others[name]) for name, value in named.items()))
    a, b = sorted((a, b), key=lambda answer: _ORDER.index(type(answer)))
    if isinstance(a, Assignment | Relation) and isinstance(b, Assignment | Relation):
        return _same_relations(a, b)
    if isinstance(a, Assignment):
        return _same_named(a, b)
    if isinstance(a, Relation):  # an unsolved relation is no set without an unknown
        return isinstance(b, Region) and b.unknown is not None and _same_regions(a, b)
    if isinstance(a, Word | Choice):
        return _same_letter_lists(a, b) if isinstance(b, Listing) else _same_words(a, b)
    if isinstance(a, Range):
        return isinstance(b, Range) and _all(_same(a.low, b.low), _same(a.high, b.high))
    if isinstance(a, Matrix):
        if isinstance(b, Listing) and b.kind == "()" and all(len(row) == 1 for row in a.rows):
            return _same(Listing("()", tuple(row[0] for row in a.rows)), b)  # a vector
        return isinstance(b, Matrix) and _same_matrices(a, b)
    if isinstance(a, Region) and isinstance(b, Listing) and b.kind == "and":
        return _same_listings(Listing("and", as_relations(a)), b)
    if isinstance(a, Region):
        return _same_regions(a, b)
    if isinstance(a, Amount) and isinstance(b, Amount):
        return _same_amounts(a, b)
    if isinstance(a, Listing) and isinstance(b, Amount) and a.kind == "{}":
        return False  # the set of a number is no number
    return _same_listings(_as_listing(a), _as_listing(b))


def _same_named(a: Assignment, b: Answer) -> bool | None:
    """x = 5 says 5 to what has no name, or the same one; y' = y and f = m dv/dt say no value."""
    names = symbols(a.value.tree) if isinstance(a.value, Amount) else frozenset()
    derived = _DERIVATIVE.match(a.name)
    if any(map(_DERIVATIVE.match, names)) or (derived and derived[1] in names):
        return False
    if isinstance(b, Listing) and {item.name for item in b.items if isinstance(item, Assignment)} - {a.name}:
        return False
    if a.name.startswith(("\\bar", "\\overline")) and "i" in names:
        return False  # of a conjugate
    return _same_regions(a, b) if isinstance(b, Region) else _same(a.value, b)


def _same_regions(a: Answer, b: Answer) -> bool | None:
    first, second = as_region(a), as_region(b)
    return first is not None and second is not None and same_regions(first, second, _same_amounts)


def _any(*outcomes: bool | None) -> bool | None:
    return True if True in outcomes else None if None in outcomes else False


def _all(*outcomes: bool | None) -> bool | None:
    return False if False in outcomes else None if None in outcomes else True


def _same_words(a: Answer, b: Answer) -> bool:
    """Compare letters; two options with texts have the same text too."""
    if isinstance(a, Choice) and isinstance(b, Choice) and a.text and b.text:
        return a.letter == b.letter and same_letters(a.text, b.text)
    first, second = _letters(a), _letters(b)
    return first is not None and second is not None and same_letters(first, second)


def _same_letter_lists(a: Word | Choice, b: Listing) -> bool:
    """AC is A and C, where several options are right."""
    letters = [_letters(item) or "" for item in b.items]
    is_options = isinstance(a, Word) and a.text.isupper() and list(a.text) == sorted(set(a.text)) and max(a.text) <= "H"
    return is_options and b.kind == "bare" and sorted("".join(letters).upper()) == list(_letters(a) or "")


def _letters(answer: Answer) -> str | None:
    if isinstance(answer, Word):
        return answer.text
    if isinstance(answer, Choice):
        return answer.letter
    return answer.word if isinstance(answer, Amount) else None


def _same_amounts(a: Amount, b: Amount) -> bool | None:
    if a.word and b.word and same_letters(a.word, b.word):
        return True
    tree = _in_units_of(a, b)
    if tree is None:
        return False
    outcome = _same_trees(tree, b.tree)
    if outcome is False and (_is_angle(a, b) or _is_angle(b, a)):
        return True
    if outcome is not False or -1 in (a.places, b.places) or a.places == b.places:
        return outcome
    if None not in (a.places, b.places):
        return False  # two decimals are two numbers
    rough, precise, places = (b.tree, tree, b.places) if a.places is None else (tree, b.tree, a.places)
    return _is_rounded(precise, rough, places or 0)


def _same_trees(a: Tree, b: Tree) -> bool | None:
    count_a, count_b = kind_count(a, CALCULUS), kind_count(b, CALCULUS)
    outcome = same_values(a, b)
    if count_a or count_b:
        return True if outcome and count_a == count_b else None
    return bool(outcome)


def _is_rounded(precise: Tree, rough: Tree, places: int) -> bool:
    """Return True if the precise number, rounded either way to as many places, is the rough one."""
    if not ENOUGH_PLACES <= places <= _MOST_DIGITS or symbols(precise) - {"\\pi", "e"}:
        return False
    number, given = decimal_value(precise), decimal_value(rough)
    if given == 0 or number.adjusted() > _LARGEST or given.adjusted() + places + 1 < ENOUGH_PLACES:
        return False
    last = Decimal(1).scaleb(-places)
    roundings = (ROUND_HALF_EVEN, ROUND_HALF_UP)
    return any(number.quantize(last, rounding, _CONTEXT) == given for rounding in roundings)


def _in_units_of(a: Amount, b: Amount) -> Tree | None:
    """The first value in the second one's unit; None if the two measure or count different things.

    The paper leaves units in the criterion, not in the target: a unit or a noun on one side only does not count.
    """
    if a.noun or b.noun:
        one_sided = not (a.noun or a.unit) or not (b.noun or b.unit)
        return a.tree if a.noun == b.noun or one_sided else None
    if a.unit is None or b.unit is None:
        unit = a.unit or b.unit
        return None if unit and unit.required else a.tree
    if a.unit.dimensions == b.unit.dimensions:
        factor, shift = a.unit.factor / b.unit.factor, (a.unit.zero - b.unit.zero) / b.unit.factor
        if factor == 1 and shift == 0:
            return a.tree
        return ("+", ("*", a.tree, ("n", factor)), ("n", shift))
    if {a.unit.dimensions, b.unit.dimensions} != {DEGREES, RADIANS}:
        return None
    return ("*" if a.unit.dimensions == DEGREES else "/", a.tree, _RADIAN)


def _is_angle(angle: Amount, other: Amount) -> bool | None:
    """Return True for 180 degrees and a plain pi."""
    if angle.unit is None or angle.unit.dimensions != DEGREES or angle.unit.required or other.unit or other.noun:
        return False
    return _same_trees(("*", angle.tree, _RADIAN), other.tree)


def _same_relations(a: Assignment | Relation, b: Assignment | Relation) -> bool | None:
    if isinstance(a, Assignment) and isinstance(b, Assignment):
        if a.name == b.name and len(a.parameters) == len(b.parameters):
            if a.parameters != b.parameters and not (_is_function(a) or {*a.parameters, *b.parameters} <= _VARIABLES):
                return False  # E(X) = 3 and E(Y) = 3
            return _same(_with_own_parameters(a), _with_own_parameters(b))
        if a.name == b.name and not (a.parameters and b.parameters):
            return _same(a.value, b.value)  # y(x) = 2x and y = 2x
    first, second = (as_relation(side) if isinstance(side, Assignment) else side for side in (a, b))
    return first is not None and second is not None and same_solutions(first, second)


def _is_function(answer: Assignment) -> bool:
    value = answer.value
    return not isinstance(value, Amount) or not symbols(value.tree).isdisjoint(answer.parameters)


def _with_own_parameters(function: Assignment) -> Answer:
    names = {name: f"parameter {place}" for place, name in enumerate(function.parameters)}
    return with_trees(function.value, lambda tree: renamed(tree, names)) if names else function.value


def _same_matrices(a: Matrix, b: Matrix) -> bool | None:
    if [len(row) for row in a.rows] != [len(row) for row in b.rows]:
        return False
    return _all(*(_same(x, y) for i, j in zip(a.rows, b.rows, strict=True) for x, y in zip(i, j, strict=True)))


def _is_alternative(listing: Listing) -> bool:
    names = [item.name for item in listing.items if isinstance(item, Assignment)]
    return len(set(names)) < len(names)


_INDEX = re.compile(r"_\{?\d+\}?$")


def _named(answer: Answer) -> dict[str, Answer] | None:
    """The values of several unknowns, by name: x = 1, y = 2, or (x, y) = (1, 2); x_1 and x_2 may be two roots."""
    if isinstance(answer, Assignment) and isinstance(answer.value, Listing) and answer.value.kind == "()":
        names = answer.name.strip("()").split(",")
        values = answer.value.items
    elif isinstance(answer, Listing) and answer.kind == "bare":
        names = [item.name for item in answer.items if isinstance(item, Assignment)]
        values = tuple(item.value for item in answer.items if isinstance(item, Assignment))
        if len(names) < len(answer.items) or len({_INDEX.sub("", name) for name in names}) < len(names):
            return None
    else:
        return None
    return dict(zip(names, values, strict=True)) if 1 < len(names) == len(set(names)) == len(values) else None


def _as_listing(answer: Answer) -> Listing:
    return answer if isinstance(answer, Listing) else Listing("bare", (answer,))


def _same_listings(a: Listing, b: Listing) -> bool | None:
    kinds = {a.kind, b.kind}
    if "()" in kinds and (_is_alternative(a) or _is_alternative(b)):
        return False  # x = 1, x = 2 is no point
    items_a, items_b = _without_names(a.items, b.items)
    for this, other in ((a, b), (b, a)):
        if _named(this) and not any(isinstance(item, Assignment) for item in other.items):
            in_order = other.kind in ("bare", "()") and len(items_a) == len(items_b)
            return in_order and _all(*map(_same, items_a, items_b))
    if kinds <= {"bare", "{}"} or kinds in ({"cases"}, {"and"}, {"or"}, {"family"}):
        if max(len(items_a), len(items_b)) > _MOST_MEMBERS:
            return _all(len(items_a) == len(items_b), *map(_same, items_a, items_b))
        rows = [[_same(x, y) for y in items_b] for x in items_a]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(items_b)
        return _all(*(_any(False, *line) for line in (*rows, *columns)))
    # Math-Verify's policy, kept: (1, 3) is 1, 3 written in that order.
    if kinds not in ({"()"}, {"[]"}, {"()", "bare"}) or len(items_a) != len(items_b):
        return False
    return _all(*map(_same, items_a, items_b))


def _without_names(a: tuple[Answer, ...], b: tuple[Answer, ...]) -> tuple[tuple[Answer, ...], tuple[Answer, ...]]:
    """Take x = 1, y = 2 for 1, 2 where the other side gives no names."""
    values_a, values_b = _values(a), _values(b)
    if (values_a is None) == (values_b is None):
        return a, b
    return values_a or a, values_b or b


def _values(items: tuple[Answer, ...]) -> tuple[Answer, ...] | None:
    """The values of the items, if each is named."""
    values = tuple(item.value for item in items if isinstance(item, Assignment))
    return values if values and len(values) == len(items) else None
