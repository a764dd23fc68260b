"""Texts read into typed answers.

`read_answer` never guesses: where LaTeX leaves two readings it reads none (None), and words that it does not know stay
words, so that `5 million`, `at least 5` and `5 m up` are none of them 5. A relation without unknowns (`1=2`, `x=x`) and
a membership in the empty set are words too: they equal their own form and nothing else.
"""

import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeGuard

from rubricworks.verifiers.expression.amounts import (
    INFINITY,
    MINUS_INFINITY,
    NoValue,
    compound_amount,
    formula_tree,
    plain_number,
    read_amount,
    strip_thousands,
)
from rubricworks.verifiers.expression.formula import LONGEST, parse
from rubricworks.verifiers.expression.lookalikes import read_lookalike, split_range
from rubricworks.verifiers.expression.matrices import BLOCK, read_matrix, rows_of
from rubricworks.verifiers.expression.numerals import in_digits
from rubricworks.verifiers.expression.relation_reading import (
    SIGN,
    SIGNS,
    amount_of,
    closes_last,
    conjunction,
    piece_of,
    read_relation,
    split_outside,
)
from rubricworks.verifiers.expression.relations import (
    as_region,
    intersection,
    is_constant,
    name_of,
    same_constants,
)
from rubricworks.verifiers.expression.surface import Surface, strip_surface
from rubricworks.verifiers.expression.tokens import TooHard, TooLarge
from rubricworks.verifiers.expression.trees import Tree, renamed
from rubricworks.verifiers.expression.values import (
    Amount,
    Answer,
    Assignment,
    Choice,
    Listing,
    Matrix,
    Piece,
    Range,
    Region,
    Relation,
    Word,
    with_trees,
)
from rubricworks.verifiers.expression.words import is_formula, phrase_of, read_option


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


_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d{2,}")
"""3,4 is a list; 1,22 is a list or 1.22."""
_APPLIED = re.compile(r"[A-Za-z]\s*\(\s*[A-Z]\s*[,)]")
"""E(X) is not E(Y): a random variable, an event."""
_ELEMENT = re.compile(r"(?<![A-Za-z\\])[A-Z][a-z](?![a-z])")
_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\]]?\s*[.:)]?")
_SCALE_LETTER = re.compile(r"[\d})]\s*[KMBTGHSkmbtghs]$")
"""A number and a letter that is one thing in upper case and another in lower: 5 M, 5 m."""
_FOREIGN = re.compile(r"(?:[^\W\d_A-Za-z]|\s)+")
"""A word in another script."""
_COMMAND = re.compile(r"\\(?:begin|end)\s*\{\w+\*?\}|\\[A-Za-z]+")
_LETTERS = re.compile(r"[A-Za-z]{2,3}")
_LABEL = re.compile(r"[A-Z]{2,}")
_SPACED_LABEL = re.compile(r"(?<=^[A-Z])\s+(?=[A-Z]$)")
_VOWEL = re.compile(r"[AEIOUaeiou]")
_VARIABLES = re.compile(r"[a-c]{2,3}|.*[x-z].*")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]{3,}")
_ARTICLE = re.compile(r"(?:the|an?)\s+(?=[A-Za-z]{2})(?!and\b|or\b)", re.IGNORECASE)
_CHARGE_OR_COUNT = re.compile(r"[A-Za-z)\]]\^?[\d+-]")
_SEPARATOR = re.compile(
    r"(?:,|;)?\s*\s(?:and|or)\s|(?:,|;)\s*(?:and|or)\s|(?<=[)\d\]}])(?:and|or)(?=[(\d\[\\]|[A-Za-z]\()|\\lor\b|\\land\b|[,;]"
)
_SEMICOLON, _COMMA = re.compile(";"), re.compile(r"[,;]")
_SUCH_THAT = re.compile(r"\\mid(?![A-Za-z])|[|:]")
_COLUMN = re.compile(r"[(\[](.*,.*)[)\]]\s*\^\s*\{?\s*(?:T|\\top|\\intercal)\s*\}?")
_CONDITION = re.compile(r"^\s*(?:if|for|when|where)\b|\botherwise\b")
_ANGLE = re.compile(r"<([^<>=]*,[^<>=]*)>")
_ROWS = re.compile(r"(.*?)\s*[*]?\s*\[\s*(\[[^\[\]]*\](?:\s*,\s*\[[^\[\]]*\])*)\s*\]")
_BRACKETS = {"(": ")", "[": "]"}
_UNION = re.compile(r"\\cup(?![A-Za-z])")
_DIFFERENCE = re.compile(r"\\(?:setminus|backslash)(?![A-Za-z])")
_INTEGER = re.compile(
    r"(.*?)[\s,(]*(?:where\s+)?([a-z])\s*(?:\\in\s*(?:\\mathbb\s*)?\{?\s*Z\s*\}?|is an integer)\s*\)?"
)
_POINT = re.compile(r"([A-Z])\s*(\(.*,.*\))")
_REALS_IN_WORDS = re.compile(r"(?:the\s+)?(?:set\s+of\s+)?(?:all\s+)?real(?:s|\s+numbers)", re.IGNORECASE)
_ALL_REALS = Region((Piece(None, None, False, False),))
_ALL_BUT = re.compile(r"(?:all\s+)?real\s+numbers?\s+except(?:\s+for)?\s+(.+)", re.IGNORECASE)
_EMPTY = ("empty set", "the empty set", "\\emptyset", "\\{\\}", "\\{ \\}", "{}", "{ }")
_REALS = ("\\mathbb{R}", "\\mathbb R", "\\R")
_RESTATEMENT = re.compile(r"([^()]+?)\s*\(([^()]+)\)")
_COORDINATE = re.compile(r"\\circ\s?\}?\s*[NSEW]$")
_A_WORD = re.compile(rf"(?<![\\A-Za-z])[A-Za-z]{{2,}}(?![A-Za-z])|{_COORDINATE.pattern}")
_LONG_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{4,}")
_LONGEST_IN_WORDS = 300
_DEEPEST = 20


@lru_cache(maxsize=8192)
def read_answer(text: str) -> Answer | None:
    """The value of an answer; None if there is none.

    Raises:
        TooLarge: it is a formula that nobody can compute.
        NoValue: it is a formula without a value: 1/0.
    """
    if len(text) > LONGEST or (len(text) > _LONGEST_IN_WORDS and _LONG_WORD.search(text)):
        return None
    surface = strip_surface(text)
    try:
        return _read_whole(surface)
    except (TooLarge, NoValue):
        raise
    except (TooHard, RecursionError, ValueError, ArithmeticError):
        pass
    if _A_WORD.search(surface.body):
        phrase = phrase_of(in_digits(surface.body))
        return Word(phrase, phrase=not surface.is_text and " " in phrase)
    return None


def _read_whole(surface: Surface) -> Answer:
    """Read a whole answer, with the notations that only a whole answer can have."""
    body = surface.body
    letters = set(_COMMAND.sub("", body))
    both_cases = any(letter.lower() in letters for letter in letters if letter.isupper())
    fold = not both_cases and not _SCALE_LETTER.search(body) and not _APPLIED.search(body)
    fold = fold and not any(map(is_formula, _ELEMENT.findall(body)))
    mode = _Mode(fold, surface.in_math and not surface.is_text, surface.in_dollars and not surface.is_text)
    if not mode.in_math and _DECIMAL_COMMA.fullmatch(body) and strip_thousands(body) == body:
        return replace(read_amount(body.replace(",", "."), fold=fold), other=_read(body, mode))
    if not body.isdigit():
        body = in_digits(body, suffixes=not mode.in_dollars)
        if (match := _RESTATEMENT.fullmatch(body)) and match[1] == match[2]:  # 5 (five)
            body = match[1]
        body = _ARTICLE.sub("", body, count=1) if _ARTICLE.match(body) else body
    if (option := read_option(body)) and (option[1] or not _LETTER.fullmatch(body)):
        return Choice(option[0].casefold(), phrase_of(option[1]))
    if _COORDINATE.search(body) or "\\boxed" in body:
        raise TooHard("a direction, or a box within a text")
    if ("Z" in body or "integer" in body) and (match := _INTEGER.fullmatch(body)):
        return _family(_read(match[1], mode), match[2])
    return _read(body, mode)


def _family(answer: Answer, name: str) -> Answer:
    """Solutions for every integer, whatever it is called."""
    renamed_answer = with_trees(answer, lambda tree: renamed(tree, {name: "an integer"}))
    if renamed_answer == answer:
        raise TooHard("an integer that does not occur")
    return Listing("family", (renamed_answer,))


def _read(body: str, mode: _Mode) -> Answer:
    body = strip_thousands(body)
    if amount := plain_number(body):
        return amount
    if body.lower() in _EMPTY:
        return Listing("{}", ())
    if body in _REALS or _REALS_IN_WORDS.fullmatch(body):
        return _ALL_REALS
    if match := _ALL_BUT.fullmatch(body):
        return _read_union([_ALL_REALS, Listing("{}", (_read(match[1], mode),))], is_union=False)
    if body and _FOREIGN.fullmatch(body):
        return Word("".join(body.split()))
    if match := _LETTER.fullmatch(body):
        return Amount(parse(match[1], fold=mode.fold), match[1].casefold())
    if _LETTERS.fullmatch(body := _SPACED_LABEL.sub("", body)):
        return _letters(body, mode)
    if _WORD.fullmatch(body) or _LABEL.fullmatch(body):
        return Word(body)
    if compound := compound_amount(body):
        return compound
    if lookalike := read_lookalike(body):
        return Word(lookalike)
    if mode.alone and (ends := split_range(body, in_math=mode.in_dollars)) and (between := _range(ends, mode)):
        return between
    if body[:1] == "<" and (angle := _ANGLE.fullmatch(body)):
        body = f"({angle[1]})"
    if "\\begin" not in body:
        rows, _ = split_outside(body, _SEMICOLON) if "," in body and ";" in body else ([body], [])
        if len(rows) > 1:
            lists = [_read(row, mode) for row in rows]
            return Listing("bare", tuple(Listing("()", row.items) if _is_list(row) else row for row in lists))
        parts, separators = split_outside(body, _SEPARATOR)
        if len(parts) > 1:
            return _list(parts, separators, mode)
    return _read_one(body, mode)


def _letters(body: str, mode: _Mode) -> Answer:
    """Two or three letters: a label (AB is not BA), a word (no is not on), or a product of variables (xy is yx)."""
    if mode.alone and _LABEL.fullmatch(body):
        return Word(body)
    if mode.alone and _VOWEL.search(body) and not mode.in_dollars and not _VARIABLES.fullmatch(body):
        return Word(body)
    return Amount(parse(body, fold=mode.fold and not is_formula(body)), body)


def _range(ends: tuple[str, str], mode: _Mode) -> Range | None:
    try:
        low, high = (_read(end, mode._replace(alone=False)) for end in ends)
    except TooHard:  # words that only look like the ends of a range
        return None
    return Range(low, high) if isinstance(low, Amount) and isinstance(high, Amount) else None


def _list(parts: list[str], separators: list[str], mode: _Mode) -> Answer:
    items: list[Answer] = []
    for part in parts:
        item = _read(part, mode)
        items += item.items if _is_list(item) else [item]
    if any(isinstance(item, Word) for item in items):
        items = [Word(item.word) if isinstance(item, Amount) and item.word else item for item in items]
    if len({isinstance(item, Word) for item in items}) > 1:
        raise TooHard("a word beside a value")
    words = {word for separator in separators for word in re.findall(r"or|and", separator)}
    if len(words) == 1 and any(isinstance(item, Region | Relation) for item in items):
        if words == {"and"}:
            return conjunction(" and ".join(parts), items)
        regions = [as_region(item) for item in items]
        known = [region for region in regions if region is not None]
        if len(known) == len(items) and len({region.unknown for region in known}) == 1:
            return Region(tuple(piece for region in known for piece in region.pieces), known[0].unknown)
    if any("\\" in separator for separator in separators):
        raise TooHard("logic")
    names = {item.name if isinstance(item, Assignment) else getattr(item, "unknown", None) for item in items} - {None}
    if words == {"or"} and any(isinstance(item, Assignment | Region | Relation) for item in items) and len(names) > 1:
        return Listing("or", tuple(items))  # x = 1 or y = 2
    if words == {"or"} and all(isinstance(item, Word | Choice) or getattr(item, "word", None) for item in items):
        return Listing("or", tuple(items))  # A or B is not A and B
    return Listing("{}" if words == {"or"} else "bare", tuple(items))


def _read_one(body: str, mode: _Mode) -> Answer:
    inside = mode._replace(alone=False, depth=mode.depth + 1)
    if inside.depth > _DEEPEST:
        raise TooLarge("deep nesting")
    if "\\approx" in body:
        return _read_approximation(body, mode)
    sides, signs = split_outside(body, SIGN)
    if signs:
        return read_relation(body, sides, [SIGNS[sign] for sign in signs], mode.fold, partial(_read, mode=inside))
    if "\\begin" in body:
        return _read_block(body, inside)
    for pattern in (_UNION, _DIFFERENCE):
        parts, signs = split_outside(body, pattern)
        if signs:
            return _read_union([_read(part, inside) for part in parts], is_union=pattern is _UNION)
    if "," in body and (match := _ROWS.fullmatch(body)):
        rows = [split_outside(row.strip()[1:-1], _COMMA)[0] for row in split_outside(match[2], _COMMA)[0]]
        factor = formula_tree(match[1] or "1", fold=mode.fold)
        return Matrix(tuple(tuple(_times(factor, amount_of(_read(cell, inside))) for cell in row) for row in rows))
    if match := _COLUMN.fullmatch(body):
        return Matrix(tuple((amount_of(_read(part, inside)),) for part in split_outside(match[1], _COMMA)[0]))
    if body[:1] in _BRACKETS and body[-1:] in ")]" and closes_last(body):
        parts, _ = split_outside(body[1:-1], _COMMA)
        if len(parts) > 1:
            return _bracketed(body[0] + body[-1], tuple(_read(part, inside) for part in parts))
    for opening, closing in (("\\{", "\\}"), ("{", "}")):
        if body.startswith(opening) and body.endswith(closing) and closes_last(body.removeprefix("\\")):
            return _braced(body[len(opening) : -len(closing)].strip(), opening, inside, mode)
    if body.count("\\mp") == 1 and "\\pm" not in body:
        body = body.replace("\\mp", "\\pm")
    if (point := _POINT.fullmatch(body)) and closes_last(point[2]):
        coordinates = _read(point[2], inside)
        if isinstance(coordinates, Listing) and all(
            isinstance(x, Amount) and is_constant(x.tree) for x in coordinates.items
        ):
            return Assignment(point[1], coordinates)
    if body.count("\\pm") == 1:
        items = tuple(_read_one(_signed(body, sign), inside) for sign in "+-")
        if all(isinstance(item, Amount) for item in items) and same_constants(
            *(amount_of(item).tree for item in items)
        ):
            raise TooHard("a doubt: 5 \\pm 0")
        return Listing("bare", items)
    formula = re.sub(r"[{}_ ]", "", body)
    if _CHARGE_OR_COUNT.search(formula) and is_formula(formula):
        return _chemical(body, formula, mode)
    return read_amount(body, fold=mode.fold)


def _times(factor: Tree, amount: Amount) -> Amount:
    return amount if factor == ("n", 1) else Amount(("*", factor, amount.tree))


def _signed(body: str, sign: str) -> str:
    other = "-" if sign == "+" else "+"
    return body.replace("\\pm", sign).replace("\\mp", other).strip()


def _bracketed(kind: str, items: tuple[Answer, ...]) -> Answer:
    """A tuple, a list, or an interval; an endless end is open however it is written."""
    ends = [item for item in items if isinstance(item, Amount)]
    infinite = [end.tree in (INFINITY, MINUS_INFINITY) for end in ends]
    if len(items) == len(ends) == 2 and (kind != "()" or True in infinite):
        return Region((piece_of(ends[0], ends[1], kind[0] == "[", kind[1] == "]"),))
    if kind not in ("()", "[]"):
        raise TooHard("brackets that do not fit")
    return Listing(kind, items)


def _braced(body: str, opening: str, inside: _Mode, mode: _Mode) -> Answer:
    parts, bars = split_outside(body, _SUCH_THAT)
    if len(bars) == 1:
        variable, *domain = split_outside(parts[0], SIGN)[0]
        region = as_region(_read(parts[1], inside))
        name = name_of(variable, mode.fold)
        if region is None or name is None or region.unknown != name.text or not set(domain) <= set(_REALS):
            raise TooHard("an unusual set")
        return region
    items = _read(body, inside)
    # Braces without a backslash group in LaTeX and show nothing.
    kind = "bare" if mode.in_math and opening == "{" else "{}"
    return Listing(kind, items.items if isinstance(items, Listing) and items.kind == "bare" else (items,))


def _read_union(parts: list[Answer], *, is_union: bool) -> Answer:
    regions = [None if isinstance(part, Amount) else as_region(part) for part in parts]
    known = [region for region in regions if region is not None]
    if len(known) < len(parts) or (not is_union and len(known) > 2):
        raise TooHard("a union of something else than intervals and points")
    if is_union:
        return Region(tuple(piece for region in known for piece in region.pieces), known[0].unknown)
    remaining: Region | None = known[0]
    for piece in known[1].pieces:
        outside = Region((Piece(None, piece.low, False, False), Piece(piece.high, None, False, False)))
        if not piece.is_point:
            raise TooHard("a difference of intervals")
        remaining = remaining and intersection(remaining, outside)
    if remaining is None:
        raise TooHard("an empty difference")
    return remaining


def _read_block(body: str, mode: _Mode) -> Answer:
    block = BLOCK.fullmatch(body)
    if (
        block is None
        or block[1] not in ("cases", "aligned", "align", "array")
        or ("&" in block[2] and block[1] == "array")
    ):
        return read_matrix(body, fold=mode.fold)
    rows = rows_of(block[2])
    if block[1] != "cases":
        rows = [["".join(row)] for row in rows]
    if all(len(row) == 1 for row in rows):
        items = tuple(_read(row[0].rstrip(",;"), mode) for row in rows)
        if block[1] == "array" and not all(isinstance(item, Assignment | Relation) for item in items):
            return read_matrix(body, fold=mode.fold)
        return Listing("bare", items) if len(items) > 1 else items[0]
    cells = [[_CONDITION.sub("", cell).strip(" ,;.") for cell in row] for row in rows]
    return Listing("cases", tuple(Listing("()", tuple(_read(cell, mode) for cell in row)) for row in cells))


def _chemical(body: str, formula: str, mode: _Mode) -> Answer:
    """H_2O is H2O; a letter with a subscript is a variable too."""
    try:
        return Amount(parse(body, fold=mode.fold and formula.isupper()), formula) if "_" in body else Word(formula)
    except TooHard:
        return Word(formula)


def _is_list(answer: Answer) -> TypeGuard[Listing]:
    return isinstance(answer, Listing) and answer.kind in ("bare", "{}")


def _read_approximation(body: str, mode: _Mode) -> Answer:
    """The left side, or the right one if the left is but a name: 1/3 ~ 0.33 says 1/3, x ~ 11 says 11."""
    left, _, right = (side.strip() for side in body.partition("\\approx"))
    if not left:
        raise TooHard("about so much")
    return _read(right if name_of(left, mode.fold) else left, mode._replace(alone=False))
