"""Answers read into values that can be compared: words, amounts, tuples, sets, intervals, equations, inequalities.

`read_answer` understands what most answers are and leaves the rest (None): functions, sums, matrices, unions, prose. It
never guesses; where LaTeX leaves two readings, it leaves the answer.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from rubricworks.verifiers.expression import exact
from rubricworks.verifiers.expression.amounts import Amount, endless, plain_number, read_amount, ungrouped
from rubricworks.verifiers.expression.exact import Quotient, add, negative, number, variables
from rubricworks.verifiers.expression.formula import TooHard, read_formula
from rubricworks.verifiers.expression.surface import unwrapped


@dataclass(frozen=True, slots=True)
class Word:
    """Text without a value, case folded."""

    text: str


@dataclass(frozen=True, slots=True)
class Collection:
    kind: str
    """"set" (bare lists too), "()" (tuples and open intervals), "[]", "[)" or "(]"."""
    items: tuple["Answer", ...]
    variable: str | None = None
    """Of an inequality."""


@dataclass(frozen=True, slots=True)
class Equation:
    difference: Quotient | None
    """Left minus right, where both are amounts."""
    name: str | None = None
    """What stands left, if it is but a name: x, f(x), (x, y)."""
    value: "Answer | None" = None
    """What stands right of that name."""


@dataclass(frozen=True, slots=True)
class Inequality:
    sign: str
    """< <= or !=, of the difference with 0."""
    difference: Quotient


Answer = Word | Amount | Collection | Equation | Inequality

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_CLOCK = re.compile(r"[\d.]+(?:\s*:\s*[\d.]+)+")
_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\]]?\s*[.:)]?")
_LETTERS = re.compile(r"[A-Za-z]{1,3}")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{3,}")
_TEXT = re.compile(r"\\(?:text|math)(?:rm|bf|it|normal|sf)?\s*\{([^{}\\]*)\}")
_NAME = re.compile(r"(?!.*\\(?:frac\{.*\d|sqrt|sin|cos|tan|log|ln|lim|sum|int))[^-+*^=<>\d.]*[A-Za-z][^-+*^=<>\d.]*")
_SUBSCRIPT = re.compile(r"_(?:\w|\{[^{}]*\})")
_SIGNS = {
    "<": "<", ">": ">", "=": "=", "\\leq": "<=", "\\geq": ">=", "\\neq": "!=", "<=": "<=", ">=": ">=", "!=": "!="
}  # fmt: skip
_SIGN = re.compile(r"\\leq(?![A-Za-z])|\\geq(?![A-Za-z])|\\neq(?![A-Za-z])|<=|>=|!=|[<>=]")
_SEPARATOR = re.compile(r"(?:,|;)?\s*\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?:,|;)?\s(?:and|or)\s|[,;]")
_SEMICOLON = re.compile(";")
_BRACKETS = {"(": ")", "[": "]"}
_CONSTANTS = ("\\pi", "e", "\\infty")
_EMPTY = ("\\emptyset", "\\{\\}", "\\{ \\}")
_LONGEST = 300


@lru_cache(maxsize=8192)
def read_answer(text: str) -> Answer | None:
    """The value of an answer; None if it is left to others."""
    if len(text) > _LONGEST:
        return None
    body, in_math = unwrapped(text)
    letters = set(re.sub(r"\\[A-Za-z]+", "", body))
    fold = not any(letter.lower() in letters for letter in letters if letter.isupper())
    try:
        if not in_math and _DECIMAL_COMMA.fullmatch(body) and ungrouped(body) == body:
            decimal = plain_number(body.replace(",", "."))
            return replace(decimal, other=_read(body, fold)) if decimal else None
        return _read(body, fold)
    except (TooHard, RecursionError, ValueError, ArithmeticError):
        return None


def _read(body: str, fold: bool) -> Answer:
    body = ungrouped(body)
    if amount := plain_number(body):
        return amount
    if body in _EMPTY:
        return Collection("set", ())
    if match := _TEXT.fullmatch(body):
        body = match[1].strip()
        if not (_LETTERS.fullmatch(body) or _LETTER.fullmatch(body) or plain_number(body)):
            return Word(" ".join(body.casefold().split()))
    if match := _LETTER.fullmatch(body):
        return Amount(read_formula(match[1], exact, fold=fold), match[1].casefold())
    if _LETTERS.fullmatch(body):
        return Amount(read_formula(body, exact, fold=fold), body.casefold())
    if _WORD.fullmatch(body):
        return Word(body.casefold())
    if "," in body and len(rows := _split(body, _SEMICOLON)) > 1:
        lists = [_read(row, fold) for row in rows]
        return Collection("set", tuple(Collection("()", row.items) if _is_set(row) else row for row in lists))
    parts = _split(body)
    if len(parts) > 1:
        items: list[Answer] = []
        for part in parts:
            item = _read(part, fold)
            items += item.items if isinstance(item, Collection) and item.kind == "set" else [item]
        return Collection("set", tuple(items))
    return _read_one(body, fold)


def _read_one(body: str, fold: bool) -> Answer:
    if body[:1] in _BRACKETS and body[-1:] in ")]" and len(parts := _split(body[1:-1])) > 1:
        return Collection(body[0] + body[-1], tuple(_read(part, fold) for part in parts))
    for opening, closing in (("\\{", "\\}"), ("{", "}")):
        if body.startswith(opening) and body.endswith(closing) and _closed_at_the_end(body):
            inside = _read(body[len(opening) : -len(closing)].strip(), fold)
            return inside if isinstance(inside, Collection) and inside.kind == "set" else Collection("set", (inside,))
    if "\\approx" in body:
        return _read_approximation(body, fold)
    if _SIGN.search(body) or "\\in " in body:
        return _read_relation(body, fold)
    if body.count("\\pm") == 1:
        return Collection("set", tuple(_read_one(body.replace("\\pm", sign).strip(), fold) for sign in "+-"))
    try:
        return read_amount(body, fold=fold)
    except TooHard:
        if _CLOCK.fullmatch(body):
            return Word("".join(body.split()))
        raise


def _is_set(answer: Answer) -> bool:
    return isinstance(answer, Collection) and answer.kind == "set"


def _read_approximation(body: str, fold: bool) -> Answer:
    """What stands left, and what stands right only if the left is a name: 1/3 ~ 0.33 says 1/3, x ~ 11 says 11."""
    left, _, right = (side.strip() for side in body.partition("\\approx"))
    return _read(right if _is_name(left) else left, fold)


def _read_relation(body: str, fold: bool) -> Answer:
    if "\\in " in body:
        name, _, rest = body.partition("\\in ")
        if not _is_name(name) or "\\in " in rest:
            raise TooHard("membership")
        return Equation(None, "".join(name.split()).casefold(), _read(rest.strip(), fold))
    sides = [side.strip() for side in _SIGN.split(body)]
    signs = [_SIGNS[sign] for sign in _SIGN.findall(body)]
    if set(signs) == {"="}:
        if _is_name(sides[0]):
            value = _read(sides[-1], fold)
            difference = None
            if (
                isinstance(value, Amount)
                and isinstance(value.value, Quotient)
                and (left := _formula_or_none(sides[0], fold))
            ):
                difference = add(left, negative(value.value))
            return Equation(difference, "".join(sides[0].split()).casefold(), value)
        if len(sides) != 2:
            raise TooHard("a chain of equations")
        return Equation(_difference(sides[0], sides[1], fold))
    if len(signs) == 1:
        return _inequality(signs[0], _difference(sides[0], sides[1], fold))
    if len(signs) == 2 and {sign[0] for sign in signs} in ({"<"}, {">"}) and _is_name(sides[1]):
        if signs[0][0] == ">":
            sides, signs = sides[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
        kind = ("[" if signs[0] == "<=" else "(") + ("]" if signs[1] == "<=" else ")")
        return Collection(kind, (_read(sides[0], fold), _read(sides[2], fold)), "".join(sides[1].split()).casefold())
    raise TooHard("a chain of relations")


def _inequality(sign: str, difference: Quotient) -> Inequality | Collection:
    """In one variable, linear: an interval; else the sign of a difference."""
    if sign[0] == ">":
        sign, difference = sign.replace(">", "<"), negative(difference)
    names, top = variables(difference), difference.top
    if sign == "!=" or len(names) != 1 or set(difference.bottom) != {()} or difference.bottom[()] <= 0:
        return Inequality(sign, difference)
    (name,) = names
    slope = top.get(((name, 1),))
    if slope is None or set(top) - {((name, 1),), ()}:
        return Inequality(sign, difference)
    bound = Amount(number(Fraction(-top.get((), 0)) / slope))
    if slope > 0:
        return Collection("(]" if sign == "<=" else "()", (Amount(endless(below=True)), bound), name.casefold())
    return Collection("[)" if sign == "<=" else "()", (bound, Amount(endless(below=False))), name.casefold())


def _is_name(side: str) -> bool:
    """Letters without numbers: x, f(x), (x, y), V_1, \\angle ABC, |AB|."""
    return side not in _CONSTANTS and _NAME.fullmatch(_SUBSCRIPT.sub("", side)) is not None


def _difference(left: str, right: str, fold: bool) -> Quotient:
    return add(read_formula(left, exact, fold=fold), negative(read_formula(right, exact, fold=fold)))


def _formula_or_none(text: str, fold: bool) -> Quotient | None:
    try:
        return read_formula(text, exact, fold=fold)
    except TooHard:
        return None


def _closed_at_the_end(body: str) -> bool:
    """Whether the first bracket is closed by the last."""
    depth = 0
    for place, character in enumerate(body):
        depth += (character == "{") - (character == "}")
        if depth == 0 and character == "}":
            return place == len(body) - 1
    return False


def _split(body: str, separator: re.Pattern[str] = _SEPARATOR) -> list[str]:
    """The parts between separators that stand outside all brackets."""
    parts, start, depth, at = [], 0, 0, 0
    while at < len(body):
        character = body[at]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0 and character in ",;\\ " and (match := separator.match(body, at)):
            parts.append(body[start:at].strip())
            start = at = match.end()
            continue
        at += 1
    parts.append(body[start:].strip())
    if len(parts) > 1 and not all(parts):
        raise TooHard("an empty part")
    return parts
