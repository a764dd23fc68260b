"""Verifier calls as text, read without running anything (RLR³, appendix C).

A rubric holds `expr_verify(target=r'\\frac{4}{6}')`, an extractor emits `expr_verify(predict='2/3')`. Both come from
language models, so a call is read as data: one known name, and keywords that are literals. The grammar is the few lines
below, which nothing hostile can make recurse or compute.

The words of a verifier call: tokens, and what a string literal says.

Language models write LaTeX into strings without an r before them, where Python would read '\\frac' as a form feed and
"rac"; and into JSON with one backslash too few, so that the form feed is already there. A backslash before the name of
a command belongs to the command; every other escape means the same as in Python.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from rubricworks.verifiers.failure import LONGEST, shown
from rubricworks.verifiers.verifier_table import VERIFIERS

Literal = str | int | float | bool | None | tuple["Literal", ...]


_SHORT = 2000
"""Calls up to this many characters are cached, because a rubric's calls are parsed once per response."""
_DEEPEST = 20
_CONSTANTS: dict[str, Literal] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class VerifierCall:
    """One call, read. Lists become tuples, so that a cached call is immutable."""

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


_TOKEN = re.compile(
    r"""\s+|(
        [A-Za-z]{0,2}(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
        |[A-Za-z_][A-Za-z0-9_]*
        |(?:[0-9][0-9A-Za-z_.]*|\.[0-9][0-9A-Za-z_.]*)(?:(?<=[0-9.][eE])[-+][0-9]+)?
        |\S)""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"[0-9]+(?:_[0-9]+)*")
_FLOAT = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_MOST_DIGITS = 400

_HEX = "[0-9a-fA-F]"
_BACKSLASH = re.compile(
    r"\\(?:(?P<letters>[abfnrtv][A-Za-z]*)|(?P<escape>[\\'\"0-7\n]"
    rf"|x{_HEX}{{2}}|u{_HEX}{{4}}|U00(?:0{_HEX}|10){_HEX}{{4}}))?"
)
_CONTROL = re.compile(r"([\a\b\t\n\v\f\r])([A-Za-z]+)")
_LETTER_OF = {"\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r"}
_NAMES = """
alpha angle approx ast bar because begin beta bf big binom bmod boldsymbol bot boxed bullet fbox forall frac nabla
natural ne nearrow neg neq ngeq nleq nmid not notin nu nwarrow rangle rbrace rceil rfloor rho right rightarrow rm rvert
tan tanh tau tbinom text textbf textit textnormal textrm tfrac therefore theta tilde times to top triangle varepsilon
varnothing varphi vartheta vdots vec vee vert
"""
_COMMANDS = set(_NAMES.split())
"""LaTeX that begins like one of Python's escapes."""


def tokens_of(text: str) -> list[str]:
    """Names, numbers, string literals and single characters; white space between them goes."""
    return [token for token in _TOKEN.findall(_CONTROL.sub(_command_of_control, text)) if token]


def is_string(token: str) -> bool:
    return token[-1] in "'\"" and len(token) > 1


def string_of(token: str) -> str:
    """Value of a string literal.

    Raises:
        ValueError: it is an f-string or bytes, or holds half a surrogate pair.
    """
    quote = token[-1]
    prefix, _, _ = token.partition(quote)
    if prefix not in ("", "r", "R"):
        raise ValueError(f"strings start with a quote or r, not {prefix}")
    triple = token.startswith(quote * 3, len(prefix)) and len(token) >= len(prefix) + 6
    width = 3 if triple else 1
    inside = token[len(prefix) + width : -width]
    escaped = "\\" in inside and not prefix
    value = ast.literal_eval(_BACKSLASH.sub(_doubled, token)) if escaped else inside
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("it holds half a surrogate pair") from None
    return value


def number_of(token: str) -> int | float:
    """Value of a numeral.

    Raises:
        ValueError: it is none, or one of hundreds of digits.
    """
    if len(token) <= _MOST_DIGITS:
        if _INTEGER.fullmatch(token):
            return int(token)
        if _FLOAT.fullmatch(token):
            return float(token)
    raise ValueError("it is no decimal number of reasonable length")


def _doubled(backslash: re.Match[str]) -> str:
    """Keep the backslash of one of Python's escapes; double that of LaTeX."""
    if backslash["escape"] or (backslash["letters"] and backslash["letters"] not in _COMMANDS):
        return backslash[0]
    return "\\" + backslash[0]


def _command_of_control(match: re.Match[str]) -> str:
    """A control character and letters: as they are, or the command of which an escape in JSON made them."""
    meant = _LETTER_OF[match[1]] + match[2]
    return "\\" + meant if meant in _COMMANDS else match[0]
