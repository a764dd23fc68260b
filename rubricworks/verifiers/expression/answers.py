"""Answers read into values that can be compared: words, amounts, tuples, sets, intervals, equations, inequalities.

`read_answer` understands what most answers are and leaves the rest (None): functions, sums, matrices, unions. It never
guesses: where LaTeX leaves two readings, it leaves the answer, and words that it does not know stay words, so that
`5 million`, `at least 5` and `5 m up` are none of them 5.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeGuard, cast

from rubricworks.verifiers.expression import exact
from rubricworks.verifiers.expression.amounts import (
    Amount,
    compound_amount,
    formula_value,
    infinite,
    plain_number,
    read_amount,
    singular,
    strip_thousands,
)
from rubricworks.verifiers.expression.doubt import DOUBTS
from rubricworks.verifiers.expression.exact import Quotient, add, negative, number, variables
from rubricworks.verifiers.expression.formula import LONGEST, TooHard, TooLarge, read_formula
from rubricworks.verifiers.expression.lookalikes import read_lookalike, split_range
from rubricworks.verifiers.expression.numerals import in_digits
from rubricworks.verifiers.expression.numeric import NumericFormula
from rubricworks.verifiers.expression.options import read_option
from rubricworks.verifiers.expression.surface import Surface, strip_surface
from rubricworks.verifiers.expression.units import read_unit


@dataclass(frozen=True, slots=True)
class Word:
    """Text without a value, in one spelling."""

    text: str
    phrase: bool = False
    """Several words, or words and numbers: it may be a sentence that states a value."""


@dataclass(frozen=True, slots=True)
class Option:
    """A letter and the text of its option."""

    letter: str
    text: str


@dataclass(frozen=True, slots=True)
class Range:
    low: "Answer"
    high: "Answer"


@dataclass(frozen=True, slots=True)
class Collection:
    kind: str
    """"set" (bare lists too), "{}" (sets in braces), "()" (tuples and open intervals), "[]", "[)" or "(]"."""
    items: tuple["Answer", ...]
    variable: str | None = None
    """Of an inequality."""


@dataclass(frozen=True, slots=True)
class Equation:
    difference: Quotient | None
    """Left minus right, where both are amounts."""
    name: str | None = None
    """The left side, if it is but a name: x, f(x), (x, y)."""
    value: "Answer | None" = None
    """The right side of that name."""


@dataclass(frozen=True, slots=True)
class Inequality:
    sign: str
    """< <= or !=, of the difference with 0."""
    difference: Quotient


Answer = Word | Option | Range | Amount | Collection | Equation | Inequality


class _Mode(NamedTuple):
    fold: bool
    """Letters mean the same in either case."""
    in_math: bool
    """In dollar signs or a box: braces group and show nothing."""
    in_dollars: bool
    """In dollar signs and the like: letters are variables, a dash is a minus."""
    alone: bool = True
    """The text is the whole answer, or an item of a bare list: a dash may make a range."""
    depth: int = 0
    """Brackets around it."""


_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\]]?\s*[.:)]?")
_SCALE_LETTER = re.compile(r"[-+\d.\s]+[KMBTGHSkmbtghs]")
"""A number and a letter that is one thing in upper case and another in lower: 5 M, 5 m."""
_LETTERS = re.compile(r"[A-Za-z]{2,3}")
_LABEL = re.compile(r"[A-Z]{2,}")
_VOWEL = re.compile(r"[AEIOUaeiou]")
_VARIABLES = re.compile(r"[a-c]{2,3}|.*[x-z].*")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{3,}")
_ARTICLE = re.compile(r"(?:the|an?)\s+(?=[A-Za-z]{2})(?!and\b|or\b)", re.IGNORECASE)
_ELEMENTS = """
H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb Mo Tc Ru
Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At
Rn Fr Ra Ac Th Pa U Np Pu
"""
_ELEMENT = rf"(?:{'|'.join(sorted(_ELEMENTS.split(), key=len, reverse=True))})"
_CHEMICAL = re.compile(rf"\d*(?:(?:[(\[](?={_ELEMENT}))*{_ELEMENT}\d*(?:[)\]]\d*)*)+(?:\^?\d?[+-])?")
_CHARGE_OR_COUNT = re.compile(r"[A-Za-z)\]]\^?[\d+-]")
_NAME = re.compile(r"(?!.*\\(?:frac\{.*\d|sqrt|sin|cos|tan|log|ln|lim|sum|int))[^-+*^=<>\d.]*[A-Za-z][^-+*^=<>\d.]*")
_SUBSCRIPT = re.compile(r"_(?:\w|\{[^{}]*\})")
_SIGNS = {
    "<": "<", ">": ">", "=": "=", "\\leq": "<=", "\\geq": ">=", "\\neq": "!=", "<=": "<=", ">=": ">=", "!=": "!="
}  # fmt: skip
_SIGN = re.compile(r"\\leq(?![A-Za-z])|\\geq(?![A-Za-z])|\\neq(?![A-Za-z])|<=|>=|!=|[<>=]")
_SEPARATOR = re.compile(
    r"(?:,|;)?\s*\s(?:and|or)\s|(?:,|;)\s*(?:and|or)\s|(?<=[)\d])(?:and|or)(?=[(\d]|[A-Za-z]\()|[,;]"
)
_SEMICOLON = re.compile(";")
_BRACKETS = {"(": ")", "[": "]"}
_CONSTANTS = ("\\pi", "e", "\\infty")
_EMPTY = ("\\emptyset", "\\{\\}", "\\{ \\}")
_RESTATEMENT = re.compile(r"([^()]+?)\s*\(([^()]+)\)")
_COORDINATE = re.compile(r"\\circ\s?\}?\s*[NSEW]$")
_A_WORD = re.compile(rf"(?<![\\A-Za-z])[A-Za-z]{{2,}}(?![A-Za-z])|{_COORDINATE.pattern}")
_TOKEN = re.compile(r"\\[A-Za-z]+|[A-Za-z]+(?:'[a-z]+)?|\d+(?:,\d{3})*(?:\.\d+)?|\^\s?\{?\s?\\circ\s?\}?|[^\sA-Za-z\d]")
_DIRECTIONS = {"n": "north", "s": "south", "e": "east", "w": "west"}
_LONG_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4,}")
_LONGEST_IN_WORDS = 300
_MOST_ITEMS, _DEEPEST = 200, 20


@lru_cache(maxsize=8192)
def read_answer(text: str) -> Answer | None:
    """The value of an answer; None if it is left to others.

    Raises:
        TooLarge: it is a formula that nobody can compute.
    """
    if len(text) > LONGEST or (len(text) > _LONGEST_IN_WORDS and _LONG_WORD.search(text)):
        return None
    surface = strip_surface(text)
    try:
        return _read_whole(surface)
    except TooLarge:
        raise
    except (TooHard, RecursionError, ValueError, ArithmeticError):
        pass
    if _A_WORD.search(surface.body):
        phrase = _phrase(in_digits(surface.body))
        return Word(phrase, phrase=not surface.is_text and " " in phrase)
    return None


def _read_whole(surface: Surface) -> Answer:
    """Read a whole answer, with the notations that only a whole answer can have."""
    body = surface.body
    letters = set(re.sub(r"\\[A-Za-z]+", "", body))
    both_cases = any(letter.lower() in letters for letter in letters if letter.isupper())
    fold = not both_cases and not _SCALE_LETTER.fullmatch(body)
    mode = _Mode(fold, surface.in_math and not surface.is_text, surface.in_dollars and not surface.is_text)
    if not mode.in_math and _DECIMAL_COMMA.fullmatch(body) and strip_thousands(body) == body:
        decimal = plain_number(body.replace(",", "."))
        if decimal is None:
            raise TooHard("no number")
        return replace(decimal, other=_read(body, mode))
    if not body.isdigit():
        body = in_digits(body, suffixes=not mode.in_dollars)
        if (match := _RESTATEMENT.fullmatch(body)) and match[1] == match[2]:  # 5 (five)
            body = match[1]
        body = _ARTICLE.sub("", body, count=1) if _ARTICLE.match(body) else body
    if (option := read_option(body)) and (option[1] or not _LETTER.fullmatch(body)):
        return Option(option[0].casefold(), _phrase(option[1]))
    if _COORDINATE.search(body) or "\\boxed" in body:
        raise TooHard("a direction, or a box within a text")
    return _read(body, mode)


def _read(body: str, mode: _Mode) -> Answer:
    body = strip_thousands(body)
    if amount := plain_number(body):
        return amount
    if body in _EMPTY:
        return Collection("{}", ())
    if match := _LETTER.fullmatch(body):
        return Amount(read_formula(match[1], exact, fold=mode.fold), match[1].casefold())
    if _LETTERS.fullmatch(body):
        return _letters(body, mode)
    if _WORD.fullmatch(body) and not _LABEL.fullmatch(body):
        return Word(body.casefold())
    if _LABEL.fullmatch(body):
        return Word(body.casefold())
    if compound := compound_amount(body):
        return compound
    if lookalike := read_lookalike(body):
        return Word(lookalike)
    if mode.alone and (ends := split_range(body, in_math=mode.in_dollars)) and (between := _range(ends, mode)):
        return between
    if "," in body and len(rows := _split(body, _SEMICOLON)) > 1:
        lists = [_read(row, mode) for row in rows]
        return Collection("set", tuple(Collection("()", row.items) if _is_list(row) else row for row in lists))
    parts = _split(body)
    if len(parts) > 1:
        return _list(parts, mode)
    return _read_one(body, mode)


def _letters(body: str, mode: _Mode) -> Answer:
    """Two or three letters: a label (AB is not BA), a word (no is not on), or a product of variables (xy is yx)."""
    word = body.casefold()
    if mode.alone and _LABEL.fullmatch(body):
        return Word(word)
    if mode.alone and _VOWEL.search(body) and not mode.in_dollars and not _VARIABLES.fullmatch(body):
        return Word(word)
    return Amount(read_formula(body, exact, fold=mode.fold), word)


def _range(ends: tuple[str, str], mode: _Mode) -> Range | None:
    try:
        low, high = (_read(end, mode._replace(alone=False)) for end in ends)
    except TooHard:  # words that only look like the ends of a range
        return None
    return Range(low, high) if isinstance(low, Amount) and isinstance(high, Amount) else None


def _list(parts: list[str], mode: _Mode) -> Collection:
    items: list[Answer] = []
    for part in parts:
        item = _read(part, mode)
        items += item.items if _is_list(item) else [item]
    if len({isinstance(item, Word) for item in items}) > 1:
        raise TooHard("a word beside a value")
    return Collection("set", tuple(items))


def _read_one(body: str, mode: _Mode) -> Answer:
    inside = mode._replace(alone=False, depth=mode.depth + 1)
    if inside.depth > _DEEPEST:
        raise TooLarge("deep nesting")
    if body[:1] in _BRACKETS and body[-1:] in ")]" and len(parts := _split(body[1:-1])) > 1:
        return Collection(body[0] + body[-1], tuple(_read(part, inside) for part in parts))
    for opening, closing in (("\\{", "\\}"), ("{", "}")):
        if body.startswith(opening) and body.endswith(closing) and _closes_last(body):
            items = _read(body[len(opening) : -len(closing)].strip(), inside)
            # Braces without a backslash group in LaTeX and show nothing.
            kind = "set" if mode.in_math and opening == "{" else "{}"
            return Collection(kind, items.items if _is_list(items) else (items,))
    if "\\approx" in body:
        return _read_approximation(body, mode)
    if _SIGN.search(body) or "\\in " in body:
        return _read_relation(body, inside)
    if body.count("\\pm") == 1:
        return Collection("set", tuple(_read_one(body.replace("\\pm", sign).strip(), inside) for sign in "+-"))
    formula = re.sub(r"[{}_ ]", "", body)
    if _CHARGE_OR_COUNT.search(formula) and _CHEMICAL.fullmatch(formula):
        return _chemical(body, formula, mode)
    return read_amount(body, fold=mode.fold)


def _chemical(body: str, formula: str, mode: _Mode) -> Answer:
    """H_2O is H2O; a letter with a subscript is a variable too."""
    word = f"formula {formula}"
    try:
        return Amount(read_formula(body, exact, fold=mode.fold), word) if "_" in body else Word(word)
    except TooHard:
        return Word(word)


def _is_list(answer: Answer) -> TypeGuard[Collection]:
    return isinstance(answer, Collection) and answer.kind in ("set", "{}")


def _read_approximation(body: str, mode: _Mode) -> Answer:
    """The left side, or the right one if the left is but a name: 1/3 ~ 0.33 says 1/3, x ~ 11 says 11."""
    left, _, right = (side.strip() for side in body.partition("\\approx"))
    if not left:
        raise TooHard("about so much")
    return _read(right if _is_name(left) else left, mode._replace(alone=False))


def _read_relation(body: str, mode: _Mode) -> Answer:
    if "\\in " in body:
        name, _, rest = body.partition("\\in ")
        if not _is_name(name) or "\\in " in rest:
            raise TooHard("membership")
        return Equation(None, "".join(name.split()).casefold(), _read(rest.strip(), mode))
    sides = [side.strip() for side in _SIGN.split(body)]
    signs = [_SIGNS[sign] for sign in _SIGN.findall(body)]
    if set(signs) == {"="}:
        return _equation(sides, mode)
    if len(signs) == 1:
        left = sides[0] or "x"  # > 3 says x > 3
        relation = _inequality(signs[0], _difference(left, sides[1], mode.fold))
        return replace(relation, variable=None) if not sides[0] and isinstance(relation, Collection) else relation
    if len(signs) == 2 and {sign[0] for sign in signs} in ({"<"}, {">"}) and _is_name(sides[1]):
        if signs[0][0] == ">":
            sides, signs = sides[::-1], [sign.replace(">", "<") for sign in signs[::-1]]
        kind = ("[" if signs[0] == "<=" else "(") + ("]" if signs[1] == "<=" else ")")
        return Collection(kind, (_read(sides[0], mode), _read(sides[2], mode)), "".join(sides[1].split()).casefold())
    raise TooHard("a chain of relations")


def _equation(sides: list[str], mode: _Mode) -> Equation:
    if len(sides) == 2 and _is_name(sides[1]) and not _is_name(sides[0]) and sides[1].isalpha():
        sides = sides[::-1]  # 5 = x
    if not _is_name(sides[0]):
        if all(map(_is_constant, sides)):
            return Equation(None, None, _read(sides[-1], mode))  # 2 + 3 = 5 says 5
        if len(sides) != 2:
            raise TooHard("a chain of equations")
        return Equation(_difference(sides[0], sides[1], mode.fold))
    value = _read(sides[-1], mode)
    difference = None
    if isinstance(value, Amount) and isinstance(value.value, Quotient):
        left = _formula_or_none(sides[0], mode.fold)
        difference = add(left, negative(value.value)) if left else None
    return Equation(difference, "".join(sides[0].split()).casefold(), value)


def _is_constant(side: str) -> bool:
    value = formula_value(side.strip(" $"), fold=True)
    return value.constant if isinstance(value, NumericFormula) else not variables(value)


def _inequality(sign: str, difference: Quotient) -> Inequality | Collection:
    """Interval of a linear inequality in one variable; else the sign of a difference."""
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
        return Collection("(]" if sign == "<=" else "()", (Amount(infinite(below=True)), bound), name.casefold())
    return Collection("[)" if sign == "<=" else "()", (bound, Amount(infinite(below=False))), name.casefold())


def _is_name(side: str) -> bool:
    """Return True for letters without numbers: x, f(x), (x, y), V_1, \\angle ABC, |AB|, area; False with a doubt."""
    if side in _CONSTANTS or DOUBTS.search(side):
        return False
    return _NAME.fullmatch(_SUBSCRIPT.sub("", side)) is not None


def _difference(left: str, right: str, fold: bool) -> Quotient:
    return add(read_formula(left, exact, fold=fold), negative(read_formula(right, exact, fold=fold)))


def _formula_or_none(text: str, fold: bool) -> Quotient | None:
    try:
        return cast(Quotient, read_formula(text, exact, fold=fold))
    except TooHard:
        return None


def _closes_last(body: str) -> bool:
    """Return True if the first brace is closed by the last."""
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
        elif depth == 0 and character in ",; ao" and (match := separator.match(body, at)):
            parts.append(body[start:at].strip())
            start = at = match.end()
            continue
        at += 1
    parts.append(body[start:].strip())
    if len(parts) > 1 and not all(parts):
        raise TooHard("an empty part")
    if len(parts) > _MOST_ITEMS:
        raise TooLarge("a long list")
    return parts


def _phrase(text: str) -> str:
    """One spelling of a text: numbers in digits, units by size, no articles, plurals or commas."""
    words: list[str] = []
    for token in _TOKEN.findall(text):
        previous = words[-1] if words else ""
        if "\\circ" in token or token == "°":
            words.append("degree")
        elif token[0].isdigit():
            words.append(token.replace(",", ""))
        elif token == "%" or token.casefold() in ("percent", "pct"):
            words.append("percent")
        elif token[0].isalpha() and previous[:1].isdigit() and (unit := read_unit(token)):
            words.append("degree" if unit.dimensions == (("degree", 1),) else f"{unit.factor} {unit.dimensions}")
        elif token.casefold() in _DIRECTIONS and previous == "degree":
            words.append(_DIRECTIONS[token.casefold()])
        elif token[0].isalpha():
            word = token.casefold()
            words += [] if word in ("a", "an", "the") else [singular(word) or word]
        elif token not in ",.;{}":
            words.append(token)
    return " ".join(words)
