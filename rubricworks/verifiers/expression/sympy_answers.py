"""Answers beyond exact arithmetic, by Math-Verify's parser and SymPy; for the worker process only.

The parser is Math-Verify's, with two differences: an answer is read to its end or not at all (`0.\\overline{3}` is not
0), and degrees in trigonometric functions are degrees. Equality is ours: numbers and formulas are compared at fifty
digits, at random points where they have variables, relative to their size, so that 2^-99 is not 2^-98; Math-Verify's
own `verify` decides what is neither number, formula, equation nor a collection of these.
"""

import contextlib
import logging
import random
import re
from typing import Any

import sympy
from antlr4 import Token
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy, normalize_latex
from math_verify import LatexExtractionConfig, verify
from math_verify.grader import is_assignment_relation, is_equation, should_treat_as_complex, take_last_relation
from sympy import Basic, Eq, Expr, Float, MatrixBase, Tuple
from sympy.core.relational import Relational
from sympy.sets.sets import FiniteSet, Interval

from rubricworks.verifiers.expression.surface import strip_surface

logging.getLogger("math_verify").setLevel(logging.ERROR)

_DIGITS = 50
_SAME = sympy.Float("1e-30")
_SAME_FLOATS = sympy.Float("1e-12")
_ROUNDING = sympy.Float("5.0000001e-7")
"""Math-Verify's six decimals, for answers with decimals in them."""
_NORMALIZATION = LatexExtractionConfig().normalization_config
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
_FUNCTION = re.compile(r"(?<![\\A-Za-z])(a?(?:rc)?(?:sin|cos|tan)|cot|sec|csc|log|ln|exp)(?![A-Za-z])")
_EXPONENT = r"(\w+|\\[A-Za-z]+)"
_GROUP = r"\{(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*\}"
_TOWER = re.compile(rf"\^\s*{_EXPONENT}\s*\^\s*(\w+|\\[A-Za-z]+|{_GROUP})(?![\w^]|\s*\^)")
_EQUALS = re.compile(r"(?<![\\<!>=])=(?!=)")


_UNREADABLE = (Exception,)
"""The parser raises bare Exception, and its actions whatever SymPy raises."""


class Whole(_Latex2Sympy):  # type: ignore[misc]
    """Math-Verify's converter, refusing what it read only in part."""

    def create_parser(self, latex_str: str) -> Any:
        self.parser = super().create_parser(latex_str)
        return self.parser

    def parse(self, latex_str: str) -> Any:
        value = super().parse(latex_str)
        if self.parser.getCurrentToken().type != Token.EOF:
            raise ValueError("something follows the formula")
        return value


_COMMON = (
    r"\int_0^1 x^2\,dx=\frac{1}{3}", r"\sum_{k=1}^{3} k", r"\lim_{x\to 0}\frac{\sin x}{x}", r"\frac{d}{dx} e^{2x}",
    r"(-\infty,1)\cup[2,\infty)", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\lfloor 2.5\rfloor", "-2 < x \\leq 7",
    r"\{1,2\}", r"\log_2 8+\sqrt[3]{x}",
)  # fmt: skip


def warm_up() -> None:
    """Read and compare common formulas: the first time takes the parser ten times as long."""
    for text in _COMMON:
        values = read(text)
        assert values, text
        equivalent(values[0], values[0])


def read(text: str) -> list[Any]:
    """The readings of a formula, best first; empty if it cannot be read."""
    body = _FUNCTION.sub(lambda name: f"\\{name[0]} ", strip_surface(text).body)
    last = _EQUALS.split(body)[-1] if "," not in body and ";" not in body else body
    for part in dict.fromkeys((body, last)):
        with contextlib.suppress(*_UNREADABLE):
            return [_formula(part)]
    return []


def _formula(body: str) -> Any:
    if _TRIGONOMETRY.search(body):
        body = _DEGREES.sub(r"(\\frac{\1\\pi}{180})", body)
    for _ in range(3):  # 2^3^4 is 2^{3^4}
        body = _TOWER.sub(r"^{\1^\2}", body)
    latex = normalize_latex(body, _NORMALIZATION)
    return Whole(is_real=not should_treat_as_complex(latex)).parse(latex)


def evaluate(value: Any) -> None:
    """Compute the value as far as it will be needed; what hangs here hangs because of this value."""
    if isinstance(value, Expr) and not value.free_symbols:
        with contextlib.suppress(*_UNREADABLE):
            sympy.N(value, _DIGITS)


def equivalent(target: Any, predict: Any) -> bool:
    target, predict = _values(target, predict)
    if isinstance(target, Expr) and isinstance(predict, Expr):
        decided = _same_expressions(target, predict)
        if decided is not None:
            return decided
    elif isinstance(target, Eq) and isinstance(predict, Eq):
        decided = _same_equations(target, predict)
        if decided is not None:
            return decided
    elif isinstance(target, MatrixBase) and isinstance(predict, MatrixBase):
        return target.shape == predict.shape and all(map(equivalent, target.flat(), predict.flat()))
    elif isinstance(target, FiniteSet) and isinstance(predict, FiniteSet):
        return _covers(target.args, predict.args) and _covers(predict.args, target.args)
    elif isinstance(target, Tuple) and isinstance(predict, Tuple):
        return len(target) == len(predict) and all(map(equivalent, target, predict))
    elif isinstance(target, Interval) and isinstance(predict, Interval):
        same_ends = (target.left_open, target.right_open) == (predict.left_open, predict.right_open)
        return same_ends and equivalent(target.start, predict.start) and equivalent(target.end, predict.end)
    return bool(verify(target, predict, timeout_seconds=None, allow_set_relation_comp=True))


def _values(target: Any, predict: Any) -> tuple[Any, Any]:
    """x = 5 says 5 where the other side is no equation: Math-Verify's rule."""
    if isinstance(target, Basic) and isinstance(predict, Basic):
        if is_equation(predict) and not is_equation(target) and not isinstance(target, Relational):
            predict = take_last_relation(predict).rhs
        elif is_assignment_relation(target) and not is_equation(predict) and not isinstance(predict, Relational):
            target = take_last_relation(target).rhs
    return _done(target), _done(predict)


def _done(value: Any) -> Any:
    """Matrices multiplied, percentages divided, integrals and sums too, where SymPy can; i is the imaginary unit."""
    try:
        units = {symbol: sympy.I for symbol in value.free_symbols if symbol.name == "i"}
        return value.subs(units).doit() if units else value.doit()
    except Exception:  # SymPy raises many kinds; undone, the value is compared as it is
        return value


def _covers(many: Any, others: Any) -> bool:
    return all(any(equivalent(a, b) for b in others) for a in many)


def _same_expressions(a: Expr, b: Expr) -> bool | None:
    """None if the two cannot be computed."""
    symbols = sorted(a.free_symbols | b.free_symbols, key=str)
    floats = a.has(Float) or b.has(Float)
    compared = 0
    for point in _points(symbols):
        x, y = _number(a, point), _number(b, point)
        if x is None or y is None:
            continue
        if not _close(x, y, floats) and not _cancels(a, b, point, abs(x - y)):
            return False
        compared += 1
    if not compared or (symbols and compared < 3):
        return None
    return True


def _cancels(a: Expr, b: Expr, point: dict[Any, Any], difference: Any) -> bool:
    """Return True if a tiny difference is lost digits alone, as of sin(pi) and 0: it shrinks with more digits."""
    if difference > _SAME:
        return False
    left = _number(a - b, point, 3 * _DIGITS)
    return left is not None and abs(left) <= difference * _SAME


def _points(symbols: list[Any]) -> list[dict[Any, Any]]:
    if not symbols:
        return [{}]
    dice = random.Random(0)
    ranges = [(1, 3), (0, 1), (1, 9), (-1, 0), (-4, -1), (2, 5)]
    return [
        {symbol: sympy.Rational(dice.randint(1, 10**6 - 1), 10**6) * (high - low) + low for symbol in symbols}
        for low, high in ranges
    ]


def _number(value: Expr, point: dict[Any, Any], digits: int = _DIGITS) -> Any:
    """A finite number, or None."""
    try:
        number = sympy.N(value.subs(point) if point else value, digits)
        return number if number.is_number and number.is_finite else None
    except (TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError):
        return None


def _close(x: Any, y: Any, floats: bool) -> bool:
    apart, size = abs(x - y), max(abs(x), abs(y))
    if apart <= size * (_SAME_FLOATS if floats else _SAME):
        return True
    return bool(floats and apart <= _ROUNDING and apart <= size / 1000)


def _same_equations(a: Eq, b: Eq) -> bool | None:
    """The same solutions; None if they are not found."""
    try:
        f, g = a.lhs - a.rhs, b.lhs - b.rhs
        if f.free_symbols != g.free_symbols or not f.free_symbols:
            return None
        return _vanishes_where(f, g) and _vanishes_where(g, f)
    except (TypeError, ValueError, AttributeError, ArithmeticError, NotImplementedError, sympy.PolynomialError):
        return None


def _vanishes_where(f: Expr, g: Expr) -> bool:
    """Return True if g is zero where the polynomial f is, at random values of all variables but one."""
    first, *others = sorted(f.free_symbols, key=str)
    for point in _points(others)[:3]:
        numerator = sympy.together(f.subs(point)).as_numer_denom()[0]
        for root in sympy.Poly(sympy.expand(numerator), first).nroots(n=_DIGITS, maxsteps=200):
            at = {**point, first: root}
            value = _number(g, at)
            parts = [_number(part, at) for part in sympy.Add.make_args(sympy.expand(g))]
            size = max((abs(part) for part in parts if part is not None), default=1)
            if value is None or abs(value) > sympy.Float("1e-15") * max(size, 1):
                return False
    return True


def is_nothing(value: Any) -> bool:
    """Infinity in every direction, or no number at all: 1/0."""
    return isinstance(value, Expr) and bool(_done(value).has(sympy.nan, sympy.zoo))
