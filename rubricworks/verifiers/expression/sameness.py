"""Whether two answers are mathematically the same; None where exact arithmetic cannot tell."""

from dataclasses import replace
from fractions import Fraction

from rubricworks.verifiers.expression.amounts import INFINITY, Amount
from rubricworks.verifiers.expression.answers import Answer, Collection, Equation, Inequality, Word
from rubricworks.verifiers.expression.exact import Quotient, divide, equal, generator, multiply, number, variables
from rubricworks.verifiers.expression.formula import TooHard
from rubricworks.verifiers.expression.numeric import Computed, decimal_value, same_values
from rubricworks.verifiers.expression.rounding import ENOUGH_PLACES, decimal_of, is_rounded, is_short_decimal
from rubricworks.verifiers.expression.units import scale


def same(target: Answer, predict: Answer) -> bool | None:
    """Whether the two are the same: as numbers, sets, solutions; None if that is beyond exact arithmetic."""
    try:
        return _same(target, predict)
    except (TooHard, RecursionError):
        return None


def _same(target: Answer, predict: Answer) -> bool | None:
    for one, other in ((target, predict), (predict, target)):
        if isinstance(one, Amount) and one.other is not None:
            return _any(*(_same(reading, other) for reading in (replace(one, other=None), one.other)))
    if isinstance(target, Equation) and isinstance(predict, Equation):
        return _same_equations(target, predict)
    for equation, other in ((target, predict), (predict, target)):
        if isinstance(equation, Equation):
            # x = 5 says 5; an equation proper says no value.
            return _same(equation.value, other) if equation.value is not None else _unlike(other)
    if isinstance(target, Amount) and isinstance(predict, Amount):
        return _same_amounts(target, predict)
    if isinstance(target, Word) or isinstance(predict, Word):
        return _spelled(target) is not None and _spelled(target) == _spelled(predict)
    if isinstance(target, Inequality) or isinstance(predict, Inequality):
        return _same_inequalities(target, predict)
    return _same_collections(_as_collection(target), _as_collection(predict))


def _any(*outcomes: bool | None) -> bool | None:
    return True if True in outcomes else None if None in outcomes else False


def _all(*outcomes: bool | None) -> bool | None:
    return False if False in outcomes else None if None in outcomes else True


def _unlike(other: Answer) -> bool | None:
    return False if isinstance(other, Amount | Word) else None


def _spelled(answer: Answer) -> str | None:
    if isinstance(answer, Word):
        return answer.text
    return answer.word if isinstance(answer, Amount) else None


def _same_amounts(a: Amount, b: Amount) -> bool | None:
    if a.word is not None and a.word == b.word:
        return True
    factor = scale(a.unit, b.unit)
    if factor is None:
        return False
    if isinstance(a.value, Computed) or isinstance(b.value, Computed):
        return _same_computed(a, b) if factor == 1 else None
    value = a.value if factor == 1 else multiply(a.value, number(factor))
    if equal(value, b.value) or _is_angle(a, a.value, b) or _is_angle(b, b.value, a):
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


def _same_computed(a: Amount, b: Amount) -> bool | None:
    outcome = same_values(a.value, b.value)
    for known, plain in ((a.value, b), (b.value, a)):
        rounded = outcome is False and isinstance(known, Computed) and isinstance(plain.value, Quotient)
        if rounded and known.constant and plain.places is not None and plain.places >= ENOUGH_PLACES:
            return is_rounded(decimal_value(known), decimal_of(plain.value), plain.places)
    return outcome


def _is_angle(angle: Amount, value: Quotient, other: Amount) -> bool:
    """180 degrees are pi."""
    if angle.unit is None or angle.unit.quantity != "angle" or other.unit is not None:
        return False
    return isinstance(other.value, Quotient) and equal(
        multiply(value, divide(generator("\\pi"), number(180))), other.value
    )


def _same_equations(a: Equation, b: Equation) -> bool | None:
    if a.name is not None and a.name == b.name and a.value is not None and b.value is not None:
        return _same(a.value, b.value)
    if a.difference is None or b.difference is None:
        return None
    ratio = _ratio(a.difference, b.difference)
    if ratio is not None:
        return True
    linear = all(_is_linear(difference) for difference in (a.difference, b.difference))
    return False if linear else None


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
    """In its variables, with rational coefficients: then two equations are the same only if they are proportional."""
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
    if target.kind == predict.kind == "set":
        if max(len(a), len(b)) > 20:
            raise TooHard("a long list")
        rows = [[_same(x, y) for y in b] for x in a]
        columns = list(zip(*rows, strict=True)) if a else [()] * len(b)
        return _all(*(_any(False, *line) for line in (*rows, *columns)))
    # Math-Verify's policy, kept: (1, 3) is 1, 3 written in that order; an interval with a closed end is no list.
    if {target.kind, predict.kind} not in ({"()"}, {"()", "set"}) and _ends(target) != _ends(predict):
        return False
    if len(a) != len(b) or ((target.variable or predict.variable) and "set" in (target.kind, predict.kind)):
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
    """x = 1, y = 2 is 1, 2 where the other side gives no names."""
    values_a, values_b = _values(a), _values(b)
    if (values_a is None) == (values_b is None):
        return a, b
    return values_a or a, values_b or b


def _values(items: tuple[Answer, ...]) -> tuple[Answer, ...] | None:
    """What the items say, if each names it."""
    values = tuple(item.value for item in items if isinstance(item, Equation) and item.value is not None)
    return values if values and len(values) == len(items) else None
