"""Equality of two answers as mathematics; None where exact arithmetic cannot tell."""

import re
from dataclasses import replace
from fractions import Fraction

from rubricworks.verifiers.expression.amounts import INFINITY, Amount
from rubricworks.verifiers.expression.answers import Answer, Collection, Equation, Inequality, Option, Range, Word
from rubricworks.verifiers.expression.exact import Quotient, add, divide, equal, generator, multiply, number, variables
from rubricworks.verifiers.expression.formula import TooHard
from rubricworks.verifiers.expression.numeric import NumericFormula, decimal_value, same_values
from rubricworks.verifiers.expression.rounding import ENOUGH_PLACES, decimal_of, is_rounded, is_short_decimal
from rubricworks.verifiers.expression.units import DEGREES, RADIANS


def same(target: Answer, predict: Answer) -> bool | None:
    """Compare as numbers, sets, solutions, words; None if that is beyond exact arithmetic."""
    try:
        return _same(target, predict)
    except (TooHard, RecursionError):
        return None


def _same(target: Answer, predict: Answer) -> bool | None:
    for one, other in ((target, predict), (predict, target)):
        if isinstance(one, Amount) and one.other is not None:
            readings: tuple[Answer, ...] = (replace(one, other=None), one.other)
            return _any(*(_same(reading, other) for reading in readings))
    if isinstance(target, Equation) and isinstance(predict, Equation):
        return _same_equations(target, predict)
    for equation, other in ((target, predict), (predict, target)):
        if isinstance(equation, Equation):
            # x = 5 says 5; an equation proper says no value.
            return _same(equation.value, other) if equation.value is not None else _unlike(other)
    if isinstance(target, Range) or isinstance(predict, Range):
        return _same_ranges(target, predict)
    if isinstance(target, Amount) and isinstance(predict, Amount):
        return _same_amounts(target, predict)
    if isinstance(target, Word | Option) or isinstance(predict, Word | Option):
        return _same_words(target, predict)
    if isinstance(target, Inequality) or isinstance(predict, Inequality):
        return _same_inequalities(target, predict)
    return _same_collections(_as_collection(target), _as_collection(predict))


def _any(*outcomes: bool | None) -> bool | None:
    return True if True in outcomes else None if None in outcomes else False


def _all(*outcomes: bool | None) -> bool | None:
    return False if False in outcomes else None if None in outcomes else True


def _unlike(other: Answer) -> bool | None:
    return False if isinstance(other, Amount | Word | Option) else None


def _same_words(a: Answer, b: Answer) -> bool:
    """Compare letters; two options with texts have the same text too."""
    if isinstance(a, Option) and isinstance(b, Option) and a.text and b.text:
        return a == b
    return _letters(a) is not None and _letters(a) == _letters(b)


def _letters(answer: Answer) -> str | None:
    if isinstance(answer, Word):
        return answer.text
    if isinstance(answer, Option):
        return answer.letter
    return answer.word if isinstance(answer, Amount) else None


def _same_ranges(a: Answer, b: Answer) -> bool | None:
    if not isinstance(a, Range) or not isinstance(b, Range):
        return False
    return _all(_same(a.low, b.low), _same(a.high, b.high))


def _same_amounts(a: Amount, b: Amount) -> bool | None:
    if a.word is not None and a.word == b.word:
        return True
    value = _in_units_of(a, b)
    if value is None:
        return False
    if isinstance(value, NumericFormula) or isinstance(b.value, NumericFormula):
        return _same_numeric(replace(a, value=value), b)
    if equal(value, b.value) or _is_angle(a, b) or _is_angle(b, a):
        return True
    if a.places is None and b.places is None:
        return False
    if -1 in (a.places, b.places):
        return False if is_short_decimal(value) and is_short_decimal(b.value) else None
    # The shorter decimal is the rough one.
    if a.places and (not b.places or a.places <= b.places):
        rough, exact, places = value, b.value, a.places
    else:
        rough, exact, places = b.value, value, b.places or 0
    if places < ENOUGH_PLACES or variables(exact):
        return False
    return is_rounded(decimal_of(exact), decimal_of(rough), places)


def _in_units_of(a: Amount, b: Amount) -> Quotient | NumericFormula | None:
    """The first value in the second one's unit; None if the two measure or count different things.

    The paper leaves units in the criterion, not in the target: a unit or a noun on one side only does not count.
    """
    if a.noun or b.noun:
        one_sided = not (a.noun or a.unit) or not (b.noun or b.unit)
        return a.value if a.noun == b.noun or one_sided else None
    if a.unit is None or b.unit is None:
        unit = a.unit or b.unit
        return None if unit and unit.required else a.value
    if a.unit.dimensions == b.unit.dimensions:
        factor, shift = a.unit.factor / b.unit.factor, (a.unit.zero - b.unit.zero) / b.unit.factor
        if factor == 1 and shift == 0:
            return a.value
        if isinstance(a.value, NumericFormula):
            raise TooHard("a computed value in another unit")
        return add(multiply(a.value, number(factor)), number(shift))
    if isinstance(a.value, NumericFormula) or {a.unit.dimensions, b.unit.dimensions} != {DEGREES, RADIANS}:
        return None
    return multiply(a.value, _RADIAN) if a.unit.dimensions == DEGREES else divide(a.value, _RADIAN)


_ARGUMENT = re.compile(r"\([a-z]\)$")
_RADIAN = divide(generator("\\pi"), number(180))
"""One degree."""


def _same_numeric(a: Amount, b: Amount) -> bool | None:
    outcome = same_values(a.value, b.value)
    for known, plain in ((a.value, b), (b.value, a)):
        if outcome is not False or not isinstance(known, NumericFormula) or not isinstance(plain.value, Quotient):
            continue
        if known.constant and plain.places is not None and plain.places >= ENOUGH_PLACES:
            return is_rounded(decimal_value(known), decimal_of(plain.value), plain.places)
    return outcome


def _is_angle(angle: Amount, other: Amount) -> bool:
    """Return True for 180 degrees and a plain pi."""
    if angle.unit is None or angle.unit.dimensions != DEGREES or angle.unit.required or other.unit or other.noun:
        return False
    if not isinstance(angle.value, Quotient) or not isinstance(other.value, Quotient):
        return False
    return equal(multiply(angle.value, _RADIAN), other.value)


def _same_equations(a: Equation, b: Equation) -> bool | None:
    if a.value is not None and b.value is not None and (a.name == b.name or _is_same_function(a, b)):
        return _same(a.value, b.value)
    if a.difference is None or b.difference is None:
        return None
    ratio = _ratio(a.difference, b.difference)
    if ratio is not None:
        return True
    linear = all(_is_linear(difference) for difference in (a.difference, b.difference))
    return False if linear else None


def _is_same_function(a: Equation, b: Equation) -> bool:
    """Return True for f(x) = 1 and f(n) = 1: a constant is the same whatever its argument is called."""
    if not isinstance(a.value, Amount) or not isinstance(a.value.value, Quotient) or variables(a.value.value):
        return False
    names = [_ARGUMENT.sub("(.)", equation.name or "") for equation in (a, b)]
    return names[0] == names[1] and "(.)" in names[0]


def _same_inequalities(a: Answer, b: Answer) -> bool | None:
    if not isinstance(a, Inequality) or not isinstance(b, Inequality):
        return None
    ratio = _ratio(a.difference, b.difference)
    if ratio is not None and a.sign == b.sign and (ratio > 0 or a.sign == "!="):
        return True
    return None if a.sign == b.sign and not (_is_linear(a.difference) and _is_linear(b.difference)) else False


def _ratio(a: Quotient, b: Quotient) -> Fraction | None:
    """The number that b is multiplied by to give a, if there is one."""
    if set(a.bottom) != {()} or set(b.bottom) != {()}:
        return None
    if a.top.keys() != b.top.keys() or not a.top:
        return None
    ratios = {Fraction(a.top[term]) / b.top[term] for term in a.top}
    return ratios.pop() * b.bottom[()] / a.bottom[()] if len(ratios) == 1 else None


def _is_linear(value: Quotient) -> bool:
    """Return True if it is linear with rational coefficients: two such equations are equal if they are proportional."""
    if set(value.bottom) != {()}:
        return False
    names = variables(value)
    return bool(names) and all(len(term) == 1 and term[0][0] in names and term[0][1] == 1 for term in value.top if term)


def _as_collection(answer: Answer) -> Collection:
    return answer if isinstance(answer, Collection) else Collection("set", (answer,))


def _same_collections(target: Collection, predict: Collection) -> bool | None:
    if None not in (target.variable, predict.variable) and target.variable != predict.variable:
        return False
    a, b = _without_names(target.items, predict.items)
    kinds = {target.kind, predict.kind}
    if kinds <= {"set", "{}"}:
        if max(len(a), len(b)) > 20:
            raise TooHard("a long list")
        rows = [[_same(x, y) for y in b] for x in a]
        columns = list(zip(*rows, strict=True)) if a else [()] * len(b)
        return _all(*(_any(False, *line) for line in (*rows, *columns)))
    if "{}" in kinds:
        return False
    # Math-Verify's policy, kept: (1, 3) is 1, 3 written in that order; an interval with a closed end is no list.
    if kinds not in ({"()"}, {"()", "set"}) and _ends(target) != _ends(predict):
        return False
    if len(a) != len(b) or ((target.variable or predict.variable) and "set" in kinds):
        return False
    return _all(*(_same(x, y) for x, y in zip(a, b, strict=True)))


def _ends(collection: Collection) -> str:
    """The brackets; an endless end is open however it is written."""
    if collection.kind == "set" or len(collection.items) != 2:
        return collection.kind
    low, high = (
        isinstance(item, Amount) and isinstance(item.value, Quotient) and variables(item.value) == {INFINITY}
        for item in collection.items
    )
    return ("(" if low else collection.kind[0]) + (")" if high else collection.kind[1])


def _without_names(a: tuple[Answer, ...], b: tuple[Answer, ...]) -> tuple[tuple[Answer, ...], tuple[Answer, ...]]:
    """Take x = 1, y = 2 for 1, 2 where the other side gives no names."""
    values_a, values_b = _values(a), _values(b)
    if (values_a is None) == (values_b is None):
        return a, b
    return values_a or a, values_b or b


def _values(items: tuple[Answer, ...]) -> tuple[Answer, ...] | None:
    """The values of the items, if each is named."""
    values = tuple(item.value for item in items if isinstance(item, Equation) and item.value is not None)
    return values if values and len(values) == len(items) else None
