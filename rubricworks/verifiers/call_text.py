"""The words of a verifier call: tokens, and what a string literal says.

Language models write LaTeX into strings without an r before them, where Python would read '\\frac' as a form feed and
"rac"; and into JSON with one backslash too few, so that the form feed is already there. A backslash that begins the
name of a command is that command's; every other escape means what it means in Python.
"""

import ast
import re

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
