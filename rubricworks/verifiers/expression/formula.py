"""Formulas in LaTeX or plain notation, read and computed.

Understood: numbers, letters with subscripts, Greek letters, + - * / ^ ! with the usual precedence (-2^2 is -4, 2^3^2 is
2^9), products without a sign, \\frac, \\sqrt, \\binom, |x|, mixed numbers (2\\frac{1}{2} is two and a half), functions
(\\sin^2 x, \\log_2(x+1), \\ln|x|). What may mean two things (1/2x, f(x), dy/dx, x2, \\sin x/2) is not guessed. The
reader knows no numbers itself: an arithmetic, exact or at a point, does the sums.
"""

import math
import re
from fractions import Fraction
from typing import Any, Protocol

Rational = int | Fraction

_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|(\\[A-Za-z]+|[A-Za-z])|([-+*/^_(){}\[\]|!]))")
_DIFFERENTIAL = re.compile(r"(?<![A-Za-z\\])d\^?\{?\d?\}?\s?[A-Za-z]?\s*(?:/|\}\s*\{)\s*\(?d\s?[A-Za-z]")
_WORD = re.compile(
    r"(?<![\\A-Za-z])(?:[A-Za-z]{4,}|(?:sin|cos|tan|cot|sec|csc|log|ln|exp|lim|max|min|gcd|lcm|det|mod)(?![A-Za-z]))"
)
"""A function's name, or another word: no product of letters."""
_GREEK = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon phi
varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega hbar ell
"""
_SYMBOLS = {f"\\{name}" for name in _GREEK.split()}
_FUNCTION_NAMES = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log lg exp"
_FUNCTIONS = {f"\\{name}": name for name in _FUNCTION_NAMES.split()}
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_TIMES, _OVER = {"*", "\\cdot", "\\times"}, {"/", "\\div"}
_OPENERS = {"(": ")", "{": "}", "[": "]"}
_UNKNOWN_FUNCTIONS = set("fghFGHPQ")
LONGEST = 6000
"""Characters: a sum of four hundred fractions."""
_DEEPEST = 100


class TooHard(Exception):
    """Beyond this arithmetic or this reader, or no value at all (1/0)."""


class TooLarge(TooHard):
    """Read, and beyond any arithmetic: a tower of powers, the factorial of a million, hundreds of brackets."""


class Arithmetic(Protocol):
    def number(self, value: Rational) -> Any: ...
    def generator(self, name: str) -> Any:
        """A variable, or "\\\\pi", "e", "i"."""

    def rational(self, value: Any) -> Rational | None:
        """The value if it is known to be a rational number."""

    def negative(self, value: Any) -> Any: ...
    def add(self, a: Any, b: Any) -> Any: ...
    def multiply(self, a: Any, b: Any) -> Any: ...
    def divide(self, a: Any, b: Any) -> Any: ...
    def power(self, base: Any, exponent: Any) -> Any: ...
    def root(self, value: Any, degree: int) -> Any:
        """The real one of a negative number, if the degree is odd."""

    def factorial(self, value: Any) -> Any: ...
    def size(self, value: Any) -> Any: ...
    def degrees(self, value: Any) -> Any:
        """Convert degrees to radians."""

    def function(self, name: str, value: Any, base: Any = None) -> Any:
        """sin, arctan, ln, …; log with a base, or without one to the base of 10."""


def read_formula(text: str, numbers: Arithmetic, *, fold: bool) -> Any:
    """The value of a formula.

    Args:
        fold: whether letters mean the same in either case; E and I never do.
    Raises:
        TooHard: it is no formula, or one that this reader or this arithmetic leaves to others.
    """
    if len(text) > LONGEST or _DIFFERENTIAL.search(text) or _WORD.search(text):
        raise TooHard("long, a derivative, or a word")
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise TooHard(f"cannot read {text[at]!r}")
        tokens.append(match[match.lastindex or 0])
        at = match.end()
    reader = _Reader(tokens, numbers, fold)
    value = reader.sum()
    if reader.at < len(tokens):
        raise TooHard(f"something follows the formula: {tokens[reader.at]!r}")
    return value


class _Reader:
    """Recursive descent over the tokens; `at` is the next one."""

    def __init__(self, tokens: list[str], numbers: Arithmetic, fold: bool) -> None:
        self.tokens = [*tokens, "", ""]
        self.numbers = numbers
        self.fold = fold
        self.at = 0
        self.depth = 0

    def sum(self) -> Any:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise TooLarge("deep nesting")
        value = self.product()
        while (sign := self.tokens[self.at]) in ("+", "-"):
            self.at += 1
            term = self.product()
            value = self.numbers.add(value, self.numbers.negative(term) if sign == "-" else term)
        self.depth -= 1
        return value

    def product(self) -> Any:
        value, divided = self.signed(), False
        while True:
            token = self.tokens[self.at]
            if token in _TIMES or token in _OVER:
                self.at += 1
                factor = self.signed()
                divided = token in _OVER
                value = self.numbers.divide(value, factor) if divided else self.numbers.multiply(value, factor)
            elif self.starts_factor(token):
                if divided or token[0].isdigit() or token[0] == ".":
                    raise TooHard("1/2x may mean two things, x2 and 2 3 too")
                value = self.numbers.multiply(value, self.power())
            else:
                return value

    def signed(self) -> Any:
        sign = self.tokens[self.at]
        if sign not in ("+", "-"):
            return self.power()
        self.at += 1
        value = self.power()
        return self.numbers.negative(value) if sign == "-" else value

    def starts_factor(self, token: str) -> bool:
        if token == "" or token in _TIMES or token in _OVER or token in ("\\rfloor", "\\rceil"):
            return False
        return token[0].isalnum() or token[0] in ".\\({"

    def power(self) -> Any:
        value = self.atom()
        while self.tokens[self.at] == "!":
            self.at += 1
            value = self.numbers.factorial(value)
        if self.tokens[self.at] != "^":
            return value
        self.at += 1
        if self.passed("\\circ") or self.passed("{", "\\circ", "}"):
            return self.numbers.degrees(value)
        negated = self.passed("-")
        exponent = self.power()
        return self.numbers.power(value, self.numbers.negative(exponent) if negated else exponent)

    def passed(self, *tokens: str) -> bool:
        """Pass these tokens if they come next; return True if they do."""
        if self.tokens[self.at : self.at + len(tokens)] != list(tokens):
            return False
        self.at += len(tokens)
        return True

    def atom(self) -> Any:
        token = self.tokens[self.at]
        self.at += 1
        if token == "":
            raise TooHard("the formula ends too soon")
        if token[0].isdigit() or token[0] == ".":
            return self.numeral(token)
        if token in _OPENERS:
            return self.closed_by(_OPENERS[token])
        if token == "|":
            return self.numbers.size(self.closed_by("|"))
        if token == "\\pi" or token in ("e", "i"):
            return self.numbers.generator(token)
        if token in _SYMBOLS or (len(token) == 1 and token.isalpha()):
            return self.symbol(token)
        if token == "\\frac":
            top, bottom = self.argument(), self.argument()
            return self.numbers.divide(top, bottom)
        if token == "\\sqrt":
            return self.root()
        if token in _FUNCTIONS:
            return self.function(_FUNCTIONS[token])
        if token == "\\binom":
            n, k = self.numbers.rational(self.argument()), self.numbers.rational(self.argument())
            if not isinstance(n, int) or not isinstance(k, int) or not 0 <= k <= n:
                raise TooHard("a binomial of something else than whole numbers")
            if n > 2000:
                raise TooLarge("a binomial of large numbers")
            return self.numbers.number(math.comb(n, k))
        raise TooHard(f"cannot read {token}")

    def numeral(self, token: str) -> Any:
        value: Rational = int(token) if token.isdigit() else Fraction(token)
        if self.passed("_"):
            digits, base = token, self.subscript()
            if not digits.isdigit() or not base.isdigit() or not 2 <= int(base) <= 10 or int(max(digits)) >= int(base):
                raise TooHard("a number with an unusual subscript")
            return self.numbers.number(int(digits, int(base)))  # 204_5 is 54
        if self.tokens[self.at] == "\\frac" and token.isdigit():
            part = self.numbers.rational(self.atom())
            if part is None or not 0 < part < 1:
                raise TooHard("a number before a fraction that may be a product")
            return self.numbers.number(value + part)
        return self.numbers.number(value)

    def symbol(self, token: str) -> Any:
        name = token.lower() if self.fold and token not in ("E", "I") else token
        if self.passed("_"):
            name += "_" + self.subscript()
        if token in _UNKNOWN_FUNCTIONS and self.tokens[self.at] == "(":
            raise TooHard(f"{token}( may be a function")
        return self.numbers.generator(name)

    def subscript(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        if token != "{":
            return token
        start = self.at
        while self.tokens[self.at] not in ("}", "{", ""):
            self.at += 1
        if not self.passed("}"):
            raise TooHard("a subscript with braces in it")
        return "".join(self.tokens[start : self.at - 1])

    def argument(self) -> Any:
        """A group, or the one digit or letter that TeX takes."""
        token = self.tokens[self.at]
        if len(token) > 1 and token[0].isdigit():
            if not token.isdigit():
                raise TooHard("half a number as argument")
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
            self.at += 1
            return self.numbers.number(int(token[0]))
        if token != "{" and not token.isalnum() and token not in _SYMBOLS and token not in ("\\pi", "\\sqrt", "\\frac"):
            raise TooHard("an argument is missing")
        return self.atom()

    def root(self) -> Any:
        degree: Rational | None = 2
        if self.passed("["):
            degree = self.numbers.rational(self.closed_by("]"))
        token = self.tokens[self.at]
        if len(token) > 1 and token[0].isdigit():
            raise TooHard("the root of one digit, or of more")
        value = self.atom() if token == "(" else self.argument()
        if not isinstance(degree, int) or not 2 <= degree <= 12:
            raise TooHard("an unusual root")
        return self.numbers.root(value, degree)

    def function(self, name: str) -> Any:
        """sin 2x is of the product, sin(2x)y of the bracket; a power stands before the argument."""
        exponent = base = None
        if self.passed("^"):
            exponent = self.argument() if not self.passed("{", "-", "1", "}") else -1
        if name == "log" and self.passed("_"):
            base = self.argument()
        bracketed = self.tokens[self.at] in ("(", "{", "|")
        value = self.atom() if bracketed else self.power()
        if bracketed and self.tokens[self.at] == "^":
            raise TooHard("the power of a function, or of its argument")
        while not bracketed and (token := self.tokens[self.at]) not in _FUNCTIONS and self.starts_factor(token):
            if token == "(" or token[0].isdigit():
                raise TooHard("one argument, or a product with the function")
            value = self.numbers.multiply(value, self.power())
        if not bracketed and self.tokens[self.at] in _OVER:
            raise TooHard("a part of the argument, or of the function")
        if exponent == -1:
            if name not in _INVERSE:
                raise TooHard("a function to the power of -1")
            return self.numbers.function(_INVERSE[name], value)
        result = self.numbers.function(name, value, base)
        return result if exponent is None else self.numbers.power(result, exponent)

    def closed_by(self, close: str) -> Any:
        value = self.sum()
        if not self.passed(close):
            raise TooHard(f"{close} is missing")
        return value
