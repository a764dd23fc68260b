"""Verifier calls as text, read without running anything (RLR³, appendix C).

A rubric holds `expr_verify(target=r'\\frac{4}{6}')`, an extractor emits `expr_verify(predict='2/3')`. Both come from
language models, so a call is read as data: one known name, and keywords that are literals. The grammar is the few lines
below, which nothing hostile can make recurse or compute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from rubricworks.verifiers.call_text import is_string, number_of, string_of, tokens_of
from rubricworks.verifiers.failure import LONGEST, shown
from rubricworks.verifiers.verifier_table import VERIFIERS

Literal = str | int | float | bool | None | tuple["Literal", ...]


_SHORT = 2000
"""Calls of so many characters are remembered: a rubric's are read once per response."""
_DEEPEST = 20
_CONSTANTS: dict[str, Literal] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class VerifierCall:
    """One call, read. Lists are tuples, so that a remembered call stays as it is."""

    name: str
    """One of the verifier table."""
    arguments: Mapping[str, Literal]


def parse_verifier_call(text: str) -> VerifierCall:
    """Read one call of a verifier; nothing in it is evaluated.

    Args:
        text: such as `text_verify(target='Stop', ignore_case=True)`. Literals are strings (raw ones too), numbers with
            an optional sign, True, False, None, and lists or tuples of these. LaTeX may stand without an r before it:
            '\\sqrt2' and '\\frac12' keep their backslash.
    Raises:
        ValueError: it is anything else: another name, two calls, an attribute, a positional, starred, repeated or
            unknown argument, an f-string, an expression, half a surrogate pair, more than 100,000 characters.

    >>> parse_verifier_call("bbox_verify(target=[[531, 118, 892, 435]])").arguments["target"]
    ((531, 118, 892, 435),)
    """
    if not isinstance(text, str):
        raise ValueError(f"{shown(text)} is not the text of a verifier call")
    return _remembered(text) if len(text) <= _SHORT else _parsed(text)


def _parsed(text: str) -> VerifierCall:
    if len(text) > LONGEST:
        raise ValueError(f"verifier call of {len(text):,} characters; at most {LONGEST:,} are read")
    tokens = tokens_of(text)
    if len(tokens) < 3 or tokens[1] != "(" or not tokens[0].isidentifier():
        raise ValueError(f"{shown(text)} is not one plain call of a verifier")
    name = tokens[0]
    if name not in VERIFIERS:
        raise ValueError(f"{shown(name)} is no verifier; there are {', '.join(VERIFIERS)}")
    try:
        return VerifierCall(name, MappingProxyType(_Arguments(tokens, name).read()))
    except ValueError as error:
        raise ValueError(f"verifier call {shown(text)}: {error}") from None


_remembered = lru_cache(maxsize=4096)(_parsed)


class _Arguments:
    """Arguments between the parentheses of a call; `at` is the next token."""

    def __init__(self, tokens: list[str], name: str) -> None:
        self.tokens = [*tokens, "", ""]
        self.at = 2
        self.known = VERIFIERS[name].target | VERIFIERS[name].predict

    def read(self) -> dict[str, Literal]:
        arguments: dict[str, Literal] = {}
        while self.tokens[self.at] != ")":
            keyword = self.tokens[self.at]
            if self.tokens[self.at + 1] != "=" or not keyword.isidentifier():
                raise ValueError(f"{shown(keyword)} stands where an argument such as target=... belongs")
            if keyword not in self.known:
                raise ValueError(f"no argument {shown(keyword)}; there are {', '.join(sorted(self.known))}")
            if keyword in arguments:
                raise ValueError(f"{keyword} is given twice")
            self.at += 2
            try:
                arguments[keyword] = self.literal(0)
            except ValueError as error:
                raise ValueError(f"{keyword}: {error}") from None
            self.separator(")")
        if self.at != len(self.tokens) - 3:
            raise ValueError("something follows the call")
        return arguments

    def literal(self, depth: int) -> Literal:
        token = self.tokens[self.at]
        self.at += 1
        if token == "":
            raise ValueError("the call ends too soon")
        if is_string(token):
            parts = [string_of(token)]
            while is_string(self.tokens[self.at] or " "):  # 'a' 'b' is 'ab'
                parts.append(string_of(self.tokens[self.at]))
                self.at += 1
            return "".join(parts)
        if token in "[(":
            return self.items(token, depth + 1)
        if token in "-+":
            self.at += 1
            value = number_of(self.tokens[self.at - 1])
            return -value if token == "-" else value
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        if token[0].isdigit() or token[0] == ".":
            return number_of(token)
        raise ValueError(f"{shown(token)} is no literal: text, a number, True, False, None, or a list of these")

    def items(self, opening: str, depth: int) -> Literal:
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} brackets within each other")
        closing = "]" if opening == "[" else ")"
        items: list[Literal] = []
        comma = False
        while self.tokens[self.at] != closing:
            items.append(self.literal(depth))
            comma = self.separator(closing)
        self.at += 1
        return items[0] if opening == "(" and len(items) == 1 and not comma else tuple(items)

    def separator(self, closing: str) -> bool:
        """Pass the comma, if one follows; what closes the list stays."""
        token = self.tokens[self.at]
        if token == ",":
            self.at += 1
            return True
        if token != closing:
            raise ValueError(
                f"{shown(token)} stands where a comma or {closing} belongs" if token else "it ends too soon"
            )
        return False
