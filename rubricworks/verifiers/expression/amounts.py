"""Amounts: numbers in all their notations, formulas, and what they measure or count."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from rubricworks.verifiers.expression.formula import parse
from rubricworks.verifiers.expression.numeric import constant_value
from rubricworks.verifiers.expression.tokens import TooHard, TooLarge
from rubricworks.verifiers.expression.trees import BINDING, CALCULUS, Tree, kind_count, symbols
from rubricworks.verifiers.expression.units import DEGREES, OTHER_UNITS, Unit, read_unit
from rubricworks.verifiers.expression.values import Amount
from rubricworks.verifiers.expression.words import singular

INFINITY: Tree = ("s", "\\infty")
MINUS_INFINITY: Tree = ("-", INFINITY)
_NUMBER = re.compile(r"[-+]? ?(?:\d+\.?\d*|\.\d+)")
_GROUPED = re.compile(
    r"([-+]?[$€£¥]?\s?)([1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,2}(?: \d{3})+)((?:\.\d+)?\s*(?:[^\d,;\s][^,;]*)?)"
)
_SCIENTIFIC = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))[eE]([-+]?\d{1,3})")
_REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\s*\{(\d+)\}|\((\d+)\)(?:\.{3})?)")
_ELLIPSIS = re.compile(r"([-+]?)(\d*)\.(\d*?)((\d+?)\5+)\.{3,4}")
_RATIO = re.compile(r"(\d+)\s*:\s*([1-9]\d*)")
_MIXED = re.compile(r"([-+]?)(\d+)\s+(\d+)\s*/\s*(\d+)")
_PERCENT = re.compile(r"(.+?)\s*(?:%|\\?\b(?:percent(?:age)?|pct|per cent))")
_INFINITE = re.compile(r"([-+]?)\s*\\infty")

_MONEY = re.compile(
    r"([-+]?)\s*(US\$|[$€£¥₹]|(?:USD|EUR|GBP|CNY|RMB|JPY|INR)(?=[\s\d]))\s*([\d.]+|[\d.].*?)"
    r"\s*((?:/|per\b)\s*[A-Za-z].*)?"
)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LONG_UNIT = re.compile(r"[A-Za-z]{2}|[^\x00-\x7f]")
_LONGEST_UNIT = 64
_SAFE_LETTERS = set("mgsVWJNLAC")
"""Units that are droppable right after a number: 5m; a letter such as 5t is a variable first."""
_UNIT_START = r"(?=[A-Za-z°Ωµ$€£¥₹¢^\\\u4e00-\u9fff])"
_BEFORE_UNIT = re.compile(rf"(?<=[\d}})!.])\s*{_UNIT_START}|\s+{_UNIT_START}")
_FUNCTION = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc|arc\w+|ln|log|lg|exp|int|sum|lim|prod)(?![A-Za-z])")
_COMPOUND = re.compile(r"(?:[\d.]+\s*[^\d.,;]+?(?:,?\s+and\s+|\s+|(?<=['°]))?){2,3}")
_COMPOUND_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([^\d.,;]+?)(?:\s+and)?\s*(?=\d|$)")
_ARC = re.compile(r"(\d+)\s*(?:\^\s?\{?\s?\\circ\s?\}?|°)\s*(\d+(?:\.\d+)?)\s?'(?:\s*(\d+(?:\.\d+)?)\s?(?:\"|''))?")
_FEET = re.compile(r"(\d+)\s?'\s*(\d+(?:\.\d+)?)\s?(?:\"|'')")
_MARKED = re.compile(r"(\d+(?:\.\d+)?)\s?('|\"|'')")
"""Feet or inches; minutes of an arc or a prime too, so that the mark counts."""

_ADJECTIVES = """
red green blue yellow orange purple pink brown black white gray grey golden silver big small large little tall short
long tiny huge round square triangular circular different distinct other whole full empty open closed new old young
"""
_ADJECTIVE_SET = set(_ADJECTIVES.split())
_COUNTED = re.compile(r"([-+]?(?:\d+(?:\.\d+)?|\d+/\d+|\\frac\{\d+\}\{\d+\}))\s+((?:[a-z]+\s+)?)([A-Za-z]+)")


def plain_number(body: str) -> Amount | None:
    """A whole or decimal number."""
    if not _NUMBER.fullmatch(body):
        return None
    body = body.replace(" ", "")
    point = body.find(".")
    if point < 0:
        return Amount(("n", int(body)))
    return Amount(("n", Fraction(body.removesuffix("."))), places=len(body) - point - 1)


def strip_thousands(body: str) -> str:
    """Drop the separators of thousands: 1,000.5 and 12 000 m; 0,111 has none."""
    match = _GROUPED.fullmatch(body)
    return match[1] + match[2].replace(",", "").replace(" ", "") + match[3] if match else body


def read_amount(body: str, *, fold: bool) -> Amount:
    """Read a number or a formula, with or without a unit or the things that it counts.

    Raises:
        TooHard: it is neither.
    """
    if amount := plain_number(body) or _special_number(body):
        return amount
    if match := _PERCENT.fullmatch(body):
        amount = read_amount(match[1].strip("${} "), fold=fold)
        if amount.unit or amount.noun or symbols(amount.tree) - {"\\pi", "e"}:
            raise TooHard("percent of no number")
        return Amount(("/", amount.tree, ("n", 100)))
    measured = compound_amount(body) or _measured(body, fold) or _counted(body, fold)
    return measured or Amount(formula_tree(body, fold=fold), places=-1 if "." in body else None)


def compound_amount(body: str) -> Amount | None:
    """Units of one kind after each other, from large to small: 6 feet 2 inches, 2 hours and 30 minutes, 45°30'."""
    if match := _ARC.fullmatch(body):
        arc = Fraction(match[1]) + Fraction(match[2]) / 60 + Fraction(match[3] or 0) / 3600
        return Amount(("n", _whole(arc)), unit=Unit(DEGREES, Fraction(1), required=True))
    if match := _FEET.fullmatch(body):
        body = f"{match[1]} ft {match[2]} in"
    if match := _MARKED.fullmatch(body):
        unit = read_unit("ft" if match[2] == "'" else "in")
        return Amount(("n", _whole(Fraction(match[1]))), unit=unit and replace(unit, required=True))
    if not _COMPOUND.fullmatch(body):
        return None
    parts = _COMPOUND_PART.findall(body)
    units = [read_unit(name) for _, name in parts]
    if len(parts) < 2:
        return None
    total, last = Fraction(0), None
    for (numeral, _), unit in zip(parts, units, strict=True):
        if unit is None or (last and (unit.dimensions != last.dimensions or unit.factor >= last.factor)):
            return None
        total, last = total + Fraction(numeral) * unit.factor, unit
    assert last is not None
    return Amount(("n", _whole(total / last.factor)), unit=replace(last, required=True))


class NoValue(TooHard):
    """A formula that is read and has no value, as 1/0."""


def formula_tree(body: str, *, fold: bool) -> Tree:
    """The formula, once it is known that it has a value, or may have one.

    Raises:
        TooHard: it is no formula.
        NoValue: it is a constant without a value.
        TooLarge: it is beyond computing.
    """
    tree = parse(body, fold=fold)
    names = symbols(tree)
    if tree in (INFINITY, MINUS_INFINITY):
        return tree
    if _counts_with_infinity(tree):
        raise TooHard("arithmetic with infinity")
    if kind_count(tree, CALCULUS):
        _refuse_large(tree)
    elif not names - {"\\pi", "e", "i"}:
        try:
            constant_value(tree)
        except TooLarge:
            raise
        except (TooHard, ArithmeticError, ValueError, TypeError):
            raise NoValue("no value") from None
    return tree


def _counts_with_infinity(tree: Tree) -> bool:
    """Return True if infinity stands anywhere but in a bound."""
    parts = tree[-1:] if tree[0] in BINDING else tree[1:]
    return tree == INFINITY or any(isinstance(part, tuple) and _counts_with_infinity(part) for part in parts)


_MOST_NODES, _LARGEST_EXPONENT, _LARGEST_FACTORIAL, _LARGEST_BOUND = 400, 2000, 2000, 10**6
_LARGEST_NUMBER = 10**24


def _refuse_large(tree: Tree) -> None:
    """Refuse what SymPy would compute with too long, before it is asked.

    Raises:
        TooLarge: a number, a power, a factorial or the bound of a series is large.
    """
    for count, (kind, *parts) in enumerate(_nodes(tree)):
        limit, bounded = 0, []
        if kind == "^":
            limit, bounded = _LARGEST_EXPONENT, parts[1:]
        elif kind in ("!", "binom"):
            limit, bounded = _LARGEST_FACTORIAL, parts
        elif kind in CALCULUS and kind != "diff":
            limit, bounded = _LARGEST_BOUND, [part for part in parts[1:3] if isinstance(part, tuple)]
        for part in bounded:
            if (
                not symbols(part) - {"\\pi", "e", "i"}
                and not kind_count(part, CALCULUS)
                and abs(constant_value(part)) > limit
            ):
                raise TooLarge("a large exponent, factorial or bound")
        if count > _MOST_NODES or (kind == "n" and abs(parts[0]) > _LARGEST_NUMBER):
            raise TooLarge("much to compute")


def _nodes(tree: Tree) -> Iterator[Tree]:
    yield tree
    for part in tree[1:]:
        if isinstance(part, tuple):
            yield from _nodes(part)


def _special_number(body: str) -> Amount | None:
    """Infinity, a ratio, scientific notation, a repeating decimal, a mixed number."""
    if match := _INFINITE.fullmatch(body):
        return Amount(MINUS_INFINITY if match[1] == "-" else INFINITY)
    if match := _RATIO.fullmatch(body):
        return Amount(("n", Fraction(int(match[1]), int(match[2]))))
    if match := _SCIENTIFIC.fullmatch(body):
        return Amount(("n", Fraction(match[1]) * Fraction(10) ** int(match[2])), places=-1)
    if match := _REPEATING.fullmatch(body):
        return Amount(("n", _repeating(match[1], match[2], match[3], match[4] or match[5])))
    if body.endswith("...") and (match := _ELLIPSIS.fullmatch(body)):
        return Amount(("n", _repeating(match[1], match[2], match[3] + match[4], match[5])))
    if match := _MIXED.fullmatch(body):
        top, bottom = int(match[3]), int(match[4])
        if top >= bottom:
            raise TooHard("no mixed number")
        value = int(match[2]) + Fraction(top, bottom)
        return Amount(("n", -value if match[1] == "-" else value))
    return None


def _measured(body: str, fold: bool) -> Amount | None:
    """A number and its unit, or the sign of a currency and its number."""
    if match := _MONEY.fullmatch(body):
        amount = read_amount(match[1] + match[3], fold=fold)
        unit = read_unit(match[2].removeprefix("US") + (f" {match[4]}" if match[4] else ""))
        return amount and _with_unit(amount, unit) if unit else None
    for gap in _BEFORE_UNIT.finditer(body, max(0, len(body) - _LONGEST_UNIT)):
        head, tail = body[: gap.start()], body[gap.end() :]
        if not head or not (re.search(r"\d", head) or "\\pi" in head) or _FUNCTION.search(head):
            continue
        unit = read_unit(tail)
        if unit is None:
            continue
        if unit.letter and not gap[0] and tail not in _SAFE_LETTERS:
            unit = replace(unit, required=True)
        try:
            amount = _with_unit(read_amount(head, fold=fold), unit)
        except TooLarge:
            raise
        except TooHard:
            continue
        if symbols(amount.tree) - {"\\pi", "e"} and not _LONG_UNIT.search(_COMMAND.sub("", tail)):
            continue  # 6t^2 + 2t
        if not unit.letter:
            return amount
        product = Amount(formula_tree(body, fold=False))
        if tail in OTHER_UNITS:
            product = replace(amount, unit=OTHER_UNITS[tail], other=product)
        return replace(amount, other=product)
    return None


def _with_unit(amount: Amount, unit: Unit) -> Amount:
    if amount.unit or amount.noun:
        raise TooHard("two units")
    return replace(amount, unit=unit, word=None)


def _counted(body: str, fold: bool) -> Amount | None:
    """A number and the things that it counts, one noun with at most one adjective of the visible kind."""
    match = _COUNTED.fullmatch(body)
    if match is None or (match[2] and match[2].strip() not in _ADJECTIVE_SET):
        return None
    amount = read_amount(match[1], fold=fold)
    noun = singular(match[3].lower(), is_one=match[1] == "1")
    return replace(amount, noun=(match[2] + noun)) if noun else None


def _repeating(sign: str, whole: str, first: str, repeated: str) -> Fraction:
    """0.1666... from its parts: 1/6."""
    start = int((whole or "0") + first)
    value = Fraction(int(str(start) + repeated) - start, 10 ** len(first) * (10 ** len(repeated) - 1))
    return -value if sign == "-" else value


def _whole(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value
