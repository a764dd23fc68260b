"""Formulas in LaTeX or plain notation, parsed into trees that are never evaluated on the way.

Understood: numbers, letters with subscripts and accents, + - * / ^ ! with the usual precedence (-2^2 is -4, 2^3^2 is
2^9), products without a sign, \\frac, \\sqrt, \\binom, |x|, mixed numbers (2\\frac{1}{2} is two and a half), functions
(\\sin^2 x, \\log_2(x+1)), applied unknown functions (f(0), I(t)), derivatives, integrals, sums, products, limits. What
may mean two things (1/2x, x2, \\sin x/2) is not guessed: it raises TooHard.

A tree is a tuple: its kind, then its parts. An unknown function applied to something, a prime, dy/dx and a symbol with
a computed index are atoms: kinds "call" and "s", which no arithmetic opens.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import takewhile

from rubricworks.verifiers.expression.tokens import FUNCTION_NAMES, Rational, TooHard, TooLarge, tokens_of
from rubricworks.verifiers.expression.trees import Tree

LONGEST, _DEEPEST, _DEEPEST_CALCULUS = 6000, 100, 16
"""Characters: a sum of four hundred fractions; brackets."""
_FUNCTIONS = {f"\\{name}": name for name in FUNCTION_NAMES}
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_GREEK = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon phi
varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Upsilon Phi Psi Omega hbar ell infty nabla partial aleph
"""
_SYMBOLS = {f"\\{name}" for name in _GREEK.split()}
_ACCENT_NAMES = "vec hat bar tilde dot ddot overline underline widehat mathbb mathcal"
_ACCENTS = {f"\\{name}" for name in _ACCENT_NAMES.split()}
_ROUNDINGS, _LABELS = {"\\lfloor": "floor", "\\lceil": "ceil"}, {"\\angle", "\\triangle", "\\square"}
_TIMES, _OVER = {"*", "\\cdot", "\\times", "\\ast"}, {"/", "\\div"}
_OPENERS = {"(": ")", "{": "}", "[": "]", "\\{": "\\}"}
_ENDS = {"", "\\crossed", ")", "]", "}", "\\}", "+", "-", ",", "\\rfloor", "\\rceil", "\\mid", "\\right"}
_APPLIED = set("fghFGHPQ") | {"\\Gamma", "\\zeta", "\\Phi", "\\phi", "\\varphi", "\\psi", "\\Psi"}
"""Letters that are functions in front of any bracket; others only if the bracket holds one symbol or number."""
_CONSTANTS = ("e", "i", "\\pi", "\\infty")


@lru_cache(maxsize=8192)
def parse(text: str, *, fold: bool) -> Tree:
    """The tree of a formula.

    Args:
        fold: letters mean the same in either case; E and I never do.
    Raises:
        TooHard: it is no formula, or may mean two things.
        TooLarge: nobody can compute it.
    """
    if len(text) > LONGEST:
        raise TooHard("long")
    tokens = tokens_of(text)
    parser = _Parser(tokens, fold)
    tree = parser.sum()
    if parser.at < len(tokens):
        raise TooHard(f"something follows the formula: {tokens[parser.at]!r}")
    if parser.calculus and parser.deepest > _DEEPEST_CALCULUS:
        raise TooLarge("calculus in deep brackets")
    return tree


class _Parser:
    """Recursive descent over the tokens; `at` is the next one."""

    def __init__(self, tokens: list[str], fold: bool, depth: int = 0) -> None:
        self.tokens = [*tokens, "", "", ""]
        self.fold = fold
        self.at = 0
        self.depth = self.deepest = depth
        self.calculus = False
        self.integrals = 0
        """Integrals whose differential has not come yet."""

    def sum(self) -> Tree:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if self.depth > _DEEPEST:
            raise TooLarge("deep nesting")
        terms = [self.product()]
        while (sign := self.tokens[self.at]) in ("+", "-"):
            self.at += 1
            term = self.product()
            terms.append(("-", term) if sign == "-" else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else ("+", *terms)

    def product(self) -> Tree:
        factors, divided = [self.signed()], False
        while True:
            token = self.tokens[self.at]
            if token == "\\crossed" or (token in _TIMES and factors[-1] == ("s", "\\nabla")):
                self.at += 1  # a product of vectors: neither commutes, nor are the two the same
                factors[-1] = ("call", token, factors[-1], self.signed())
            elif token in _TIMES or token in _OVER:
                self.at += 1
                factor = self.signed()
                divided = token in _OVER
                if divided:
                    factors = [("/", factors[0] if len(factors) == 1 else ("*", *factors), factor)]
                else:
                    factors.append(factor)
            elif self.starts_factor(token):
                after_factorial = self.tokens[self.at - 1] == "!"
                if divided or ((token[0].isdigit() or token[0] == ".") and not after_factorial):
                    raise TooHard("1/2x may mean two things, x2 and 2 3 too")
                factors.append(self.power())
            else:
                return factors[0] if len(factors) == 1 else ("*", *factors)

    def signed(self) -> Tree:
        sign = self.tokens[self.at]
        if sign not in ("+", "-"):
            return self.power()
        self.at += 1
        value = self.power()
        return ("-", value) if sign == "-" else value

    def starts_factor(self, token: str) -> bool:
        if token in _ENDS or token in _TIMES or token in _OVER or self.at_differential():
            return False
        return token[0].isalnum() or token[0] in ".\\({"

    def at_differential(self) -> bool:
        token, following = self.tokens[self.at : self.at + 2]
        return self.integrals > 0 and token == "d" and (following in _SYMBOLS or following.isalpha())

    def power(self) -> Tree:
        value = self.atom()
        while self.tokens[self.at] == "!":
            self.at += 1
            is_double = self.passed("!")
            if (is_double and value[0] == "n") or self.tokens[self.at] == "!":
                raise TooLarge("a double factorial, or one of a factorial")
            value = ("call", "!!", value) if is_double else ("!", value)
        if self.tokens[self.at] != "^":
            return value
        self.at += 1
        if self.passed("\\circ") or self.passed("{", "\\circ", "}"):
            return ("deg", value)
        negated = self.passed("-")
        exponent = self.power()
        return ("^", value, ("-", exponent) if negated else exponent)

    def passed(self, *tokens: str) -> bool:
        """Pass these tokens if they come next; return True if they do."""
        if self.tokens[self.at : self.at + len(tokens)] != list(tokens):
            return False
        self.at += len(tokens)
        return True

    def atom(self) -> Tree:
        token = self.tokens[self.at]
        self.at += 1
        if token == "":
            raise TooHard("the formula ends too soon")
        if token[0].isdigit() or token[0] == ".":
            return self.numeral(token)
        if token in _OPENERS and token != "\\{":
            return self.closed_by(_OPENERS[token])
        if token in ("|", "\\|"):
            inside = self.closed_by(token)
            return ("abs", inside) if token == "|" else ("call", "norm", inside)
        if token in _SYMBOLS or token == "\\pi" or (len(token) == 1 and token.isalpha()) or token in _ACCENTS:
            return self.symbol(token)
        if token == "\\frac":
            return ("/", self.argument(), self.argument())
        if token == "\\derivative":
            self.calculus = True
            return self.derivative()
        if token == "\\sqrt":
            return self.root()
        if token in _FUNCTIONS:
            return self.function(_FUNCTIONS[token])
        if token == "\\binom":
            return ("binom", self.argument(), self.argument())
        if token in _ROUNDINGS:
            return (_ROUNDINGS[token], self.closed_by(token.replace("l", "r", 1)))
        if token in ("\\int", "\\sum", "\\prod", "\\lim"):
            self.calculus = True
            return self.integral() if token == "\\int" else self.series(token[1:])
        if token in _LABELS:
            letters = "".join(takewhile(str.isalpha, self.tokens[self.at :]))
            self.at += len(letters)
            return ("s", f"{token} {letters}")
        raise TooHard(f"cannot read {token}")

    def numeral(self, token: str) -> Tree:
        value: Rational = int(token) if token.isdigit() else Fraction(token)
        if self.passed("_"):
            base = self.subscript()
            if not token.isdigit() or not base.isdigit() or not 2 <= int(base) <= 10 or int(max(token)) >= int(base):
                raise TooHard("a number with an unusual subscript")
            return ("n", int(token, int(base)))  # 204_5 is 54
        return ("n", value)

    def symbol(self, token: str) -> Tree:
        name = self.variable(token)
        if token in ("\\dot", "\\ddot"):
            return ("s", f"D{len(token) - 3} {self.variable(self.subscript())} t")
        if token in _ACCENTS:
            name = f"{token}{{{self.subscript()}}}"
        index: Tree | None = None
        if self.passed("_"):
            start = self.at
            written = self.subscript()
            index = self.index(start)
            name += "_" if index else f"_{written}"
        primes = len(self.tokens[self.at]) if self.tokens[self.at][:1] == "'" else 0
        self.at += primes > 0
        if self.tokens[self.at] == "(" and token not in _CONSTANTS and self.is_applied(token):
            self.at += 1
            parts = (index,) if index else ()
            return ("call", name + "'" * primes, *parts, *self.listed(")"))
        if token in _APPLIED and self.tokens[self.at] == "^" and self.is_applied_power():
            if not self.passed("^", "{", "-", "1", "}", "("):
                raise TooHard("a power of a function")
            return ("call", f"{name}^-1", *self.listed(")"))
        if index:
            return ("call", name + "'" * primes, index)
        if primes and len(name) == 1:
            return ("s", f"D{primes} {name} {'t' if name == 'x' else 'x'}")
        return ("s", name + "'" * primes)

    def is_applied(self, token: str) -> bool:
        """Return True if the bracket that follows holds an argument: f(x+1), y(0), u(x, t); x(x+1) is a product."""
        end = self.closing(self.at)
        inside = self.tokens[self.at + 1 : end]
        if token in _APPLIED or "," in inside:
            return True
        inside = inside[1:] if inside[:1] == ["-"] else inside
        simple = len(inside) == 1 or (len(inside) > 2 and inside[1] == "_" and inside[2] != "{" and len(inside) == 3)
        return simple and inside[0][:1] not in ("(", "[")

    def is_applied_power(self) -> bool:
        at = self.at + 1
        at = self.closing(at) if self.tokens[at] == "{" else at + (self.tokens[at] == "-")
        return self.tokens[at + 1] == "("

    def closing(self, at: int) -> int:
        """The place of the token that closes the bracket at this one."""
        depth = 0
        for place in range(at, len(self.tokens)):
            depth += (self.tokens[place] in _OPENERS) - (self.tokens[place] in _OPENERS.values())
            if depth == 0:
                return place
        raise TooHard("a bracket is missing")

    def subscript(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        if token != "{":
            return token
        end = self.closing(self.at - 1)
        inside = self.tokens[self.at : end]
        self.at = end + 1
        return "".join(inside)

    def index(self, start: int) -> Tree | None:
        """The index as a formula, if it is one: a_{n+1}; x_{ij} and x_1 are names."""
        inside = [token for token in self.tokens[start : self.at] if token not in ("{", "}")]
        is_letter = len(inside) == 1 and (inside[0].isalpha() or inside[0] in _SYMBOLS)
        if not is_letter and not set(inside) & {"+", "-"}:
            return None
        parser = _Parser(inside, self.fold, self.depth)
        tree = parser.sum()
        return tree if parser.at == len(inside) else None

    def argument(self) -> Tree:
        """A group, or the one digit or letter that TeX takes."""
        token = self.tokens[self.at]
        if token[:1].isdigit():
            if not token.isdigit():
                raise TooHard("half a number as argument")
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]] if token[1:] else [token]
            self.at += 1
            return ("n", int(token[0]))
        if token != "{" and not token.isalnum() and token not in _SYMBOLS and token not in ("\\pi", "\\sqrt", "\\frac"):
            raise TooHard("an argument is missing")
        return self.atom()

    def listed(self, close: str) -> list[Tree]:
        outside, self.integrals = self.integrals, 0
        items = [self.sum()]
        while self.passed(","):
            items.append(self.sum())
        if not self.passed(close):
            raise TooHard(f"{close} is missing")
        self.integrals = outside
        return items

    def closed_by(self, close: str) -> Tree:
        items = self.listed(close)
        if len(items) > 1:
            raise TooHard("a list")
        return items[0]

    def derivative(self) -> Tree:
        """dy/dx as one symbol; d/dx of what follows."""
        order, variable = int(self.subscript()), self.variable(self.subscript())
        operand = self.operand() if self.passed("{", "}") else self.atom()
        if operand[0] == "s":
            return ("s", f"D{order} {operand[1]} {variable}")
        if operand[0] == "call" and operand[2:] == (("s", variable),) and "_" not in operand[1]:
            return ("call", operand[1] + "'" * order, operand[2])
        return ("diff", variable, order, operand)

    def variable(self, token: str) -> str:
        return token.lower() if self.fold and len(token) == 1 and token not in ("E", "I") else token

    def operand(self) -> Tree:
        """Operand of an operator: a bracket, or a product up to the next sign."""
        if self.tokens[self.at] in ("(", "["):
            self.at += 1
            return self.closed_by(_OPENERS[self.tokens[self.at - 1]])
        factors = [self.power()]
        while self.starts_factor(self.tokens[self.at]) or self.tokens[self.at] in _TIMES:
            self.at += self.tokens[self.at] in _TIMES
            factors.append(self.power())
        return factors[0] if len(factors) == 1 else ("*", *factors)

    def bound(self) -> Tree:
        negated = self.passed("-")
        token = self.tokens[self.at]
        self.at += token.isdigit()
        value = ("n", int(token)) if token.isdigit() else self.argument()
        return ("-", value) if negated else value

    def integral(self) -> Tree:
        low = self.bound() if self.passed("_") else None
        high = self.bound() if self.passed("^") else None
        low = self.bound() if low is None and self.passed("_") else low
        if (low is None) != (high is None):
            raise TooHard("an integral with one bound")
        self.integrals += 1
        body = ("n", 1) if self.at_differential() else self.sum()
        if not self.at_differential():
            raise TooHard("no differential")
        self.integrals -= 1
        self.at += 2
        return ("int", self.variable(self.tokens[self.at - 1]), low, high, body)

    def series(self, kind: str) -> Tree:
        if not self.passed("_", "{") or self.tokens[self.at + 1] not in ("=", "\\to", "\\rightarrow"):
            raise TooHard("a series, or a limit, without its variable")
        variable = self.variable(self.tokens[self.at])
        self.at += 2
        low = self.sum()
        side = "+" if self.passed("\\above") else "-" if self.passed("\\below") else "+-"
        if not self.passed("}") or (kind != "lim" and not self.passed("^")):
            raise TooHard("a series without its last index")
        high, body = side if kind == "lim" else self.bound(), self.product()
        if self.tokens[self.at] in _OVER:
            raise TooHard("a part of the operand, or of the operator")
        return (kind, variable, low, high, body)

    def root(self) -> Tree:
        degree: Tree = ("n", 2)
        if self.passed("["):
            degree = self.closed_by("]")
        token = self.tokens[self.at]
        if len(token) > 1 and token[0].isdigit():
            raise TooHard("the root of one digit, or of more")
        value = self.atom() if token == "(" else self.argument()
        if degree[0] != "n":
            return ("^", value, ("/", ("n", 1), degree))
        if not isinstance(degree[1], int) or not 2 <= degree[1] <= 12:
            raise TooHard("an unusual root")
        return ("root", value, degree[1])

    def function(self, name: str) -> Tree:
        """sin 2x is of the product, sin(2x)y of the bracket; a power stands before the argument."""
        exponent: Tree | int | None = None
        base = None
        if self.passed("^"):
            exponent = self.argument() if not self.passed("{", "-", "1", "}") else -1
        if name == "log" and self.passed("_"):
            base = self.argument()
        opening = self.tokens[self.at]
        bracketed = opening in ("(", "{", "|", "[")
        value = self.atom() if bracketed else self.signed()
        if bracketed and exponent is None and value and self.tokens[self.at] == "^" and opening == "(":
            self.at += 1
            exponent = self.power()  # sin(t)^2 is (sin t)^2
        elif bracketed and self.tokens[self.at] == "^":
            raise TooHard("the power of a function, or of its argument")
        while not bracketed and (token := self.tokens[self.at]) not in _FUNCTIONS and self.starts_factor(token):
            if token == "(" or token[0].isdigit():
                raise TooHard("one argument, or a product with the function")
            value = ("*", value, self.power())
        if not bracketed and self.tokens[self.at] in _OVER:
            raise TooHard("a part of the argument, or of the function")
        if exponent == -1:
            if name not in _INVERSE:
                raise TooHard("a function to the power of -1")
            return ("fn", _INVERSE[name], value, None)
        result = ("fn", name, value, base)
        return result if exponent is None else ("^", result, exponent)
