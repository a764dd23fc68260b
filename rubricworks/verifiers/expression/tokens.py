"""Tokens of a formula, once plain notation (dy/dx, sin x, sum_{k=1}^n) is written as LaTeX."""

import re
from fractions import Fraction

Rational = int | Fraction
FUNCTION_NAMES = [
    "arcsin",
    "arccos",
    "arctan",
    "arccot",
    "sinh",
    "cosh",
    "tanh",
    "coth",
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "ln",
    "log",
    "lg",
    "exp",
]
_PLAIN_FUNCTION = re.compile(
    rf"(?<![\\A-Za-z])(a(?=sin|cos|tan))?({'|'.join(FUNCTION_NAMES)}|max|min|gcd|lcm)(?=[a-z]?(?![A-Za-z]))"
)
_COEFFICIENT = re.compile(r"(?<![\w.})/^])(\d+)\s?/\s?(\d+)\s+(?=[A-Za-z])")
"""1/2 x is half of x; 1/2x may mean two things."""
_PLAIN_OPERATOR = re.compile(r"(?<![\\A-Za-z])(sum|prod|int|lim)(?=\s*_)")
_PLAIN_DERIVATIVE = re.compile(
    r"(?<![A-Za-z\\])(d(?:\^\{?\d\}?)?)\s?([A-Za-z](?:\([a-z]\))?)?\s*/\s*(d)\s?([A-Za-z](?:\^\{?\d\}?)?)(?![A-Za-z])"
)
_WORD = re.compile(r"(?<![\\A-Za-z])(?:[A-Za-z]{4,}|lim|det|mod|[A-Za-z]{2,}\s+[A-Za-z]{2,})(?![A-Za-z])")
"""Another word: no product of letters."""
_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|(\\[A-Za-z]+|\\[{}|]|[A-Za-z])|('+)|([-+*/^_(){}\[\]|!,=]))")
_MIXED = re.compile(r"(?<![\w.^])(\d+)\s*\\frac\s*(?:\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|(\d)\s*(\d)(?!\d))")
_DERIVATIVE = re.compile(
    r"\\frac\s*\{\s*(d|\\partial)\s*(?:\^\s*\{?\s*(\d)\s*\}?)?\s*((?:[^{}]|\{[^{}]*\})*?)\s*\}"
    r"\s*\{\s*\1\s*([A-Za-z]|\\[A-Za-z]+)\s*(?:\^\s*\{?\s*(\d)\s*\}?)?\s*\}"
)
_ONE_SIDED = re.compile(r"\^\s*\{?\s*([+-])\s*\}?\s*(?=\})")
_TAIL = re.compile(r"\^\s*(?:\{\s*(?:\\prime\s*)+\}|\\prime(?![A-Za-z]))")


class TooHard(Exception):
    """No formula, beyond an arithmetic, or no value at all (1/0)."""


class Outside(TooHard):
    """No real number at a real point: the root or the logarithm of a negative number."""


class TooLarge(TooHard):
    """Read, and beyond any arithmetic: a tower of powers, the factorial of a million, hundreds of brackets."""


def tokens_of(text: str) -> list[str]:
    """The tokens.

    Raises:
        TooHard: it is no formula, or may mean two things.
    """
    text = _TAIL.sub(lambda primes: "'" * primes[0].count("\\prime"), text)
    text = _PLAIN_FUNCTION.sub(lambda name: f"\\{'arc' if name[1] else ''}{name[2]} ", text)
    text = _COEFFICIENT.sub(r"(\1/\2)", text)
    text = _PLAIN_OPERATOR.sub(r"\\\1", text)
    text = _PLAIN_DERIVATIVE.sub(r"\\frac{\1 \2}{\3 \4}", text)
    text = _DERIVATIVE.sub(_derivative, _MIXED.sub(_improper, text))
    text = _ONE_SIDED.sub(lambda side: f"\\{'above' if side[1] == '+' else 'below'}", text)
    if _WORD.search(text):
        raise TooHard("a word")
    tokens: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise TooHard(f"cannot read {text[at]!r}")
        tokens.append(match[match.lastindex or 0])
        at = match.end()
    return tokens


def _improper(mixed: re.Match[str]) -> str:
    """2\\frac{1}{2} is two and a half; 2\\frac{3}{2} may mean two things."""
    whole, top, bottom = int(mixed[1]), int(mixed[2] or mixed[4]), int(mixed[3] or mixed[5])
    if not 0 < top < bottom:
        raise TooHard("a number before a fraction that may be a product")
    return f"({whole * bottom + top}/{bottom})"


def _derivative(quotient: re.Match[str]) -> str:
    """dy/dx in three groups: order, variable, what is derived, empty if it follows."""
    order, other = quotient[2] or "1", quotient[5] or "1"
    return f"\\derivative{{{order}}}{{{quotient[4]}}}{{{quotient[3]}}}" if order == other else quotient[0]
