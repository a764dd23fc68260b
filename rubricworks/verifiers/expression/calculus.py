"""Closed values of integrals, sums, products, limits and derivatives, by SymPy; for the worker process only.

Each such part of a formula goes to SymPy for itself and comes back as a formula. An expression without a closed value,
or with a conditional one, becomes an atom that equals only itself. Nothing else is simplified, and no relation is seen
here.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy

from rubricworks.verifiers.expression.formula import parse
from rubricworks.verifiers.expression.tokens import TooHard
from rubricworks.verifiers.expression.trees import CALCULUS, Tree, symbols

_COMMON = (
    r"\int_0^1 x^2 dx", r"\sum_{k=1}^{n} k", r"\sum_{k=1}^{\infty} \frac{1}{k^2}", r"\prod_{k=1}^{3} k",
    r"\lim_{x\to 0} \frac{\sin x}{x}", r"\frac{d}{dx} (e^{2x})", r"\int_0^{\infty} e^{-x} dx",
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan, "cot": sympy.cot, "sec": sympy.sec, "csc": sympy.csc,
    "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "arccot": sympy.acot, "sinh": sympy.sinh,
    "cosh": sympy.cosh, "tanh": sympy.tanh, "coth": sympy.coth, "ln": sympy.log, "exp": sympy.exp,
}  # fmt: skip
_NAMES = {function: name for name, function in _FUNCTIONS.items()}
_NODES: dict[Any, str] = {
    sympy.Add: "+", sympy.Mul: "*", sympy.Pow: "^", sympy.factorial: "!", sympy.binomial: "binom", sympy.Abs: "abs",
    sympy.floor: "floor", sympy.ceiling: "ceil",
}  # fmt: skip
_DEPENDENT: dict[str, set[str]] = {"x": {"y"}, "t": {"x", "y", "z"}}
_CONSTANTS = {"\\pi": sympy.pi, "e": sympy.E, "i": sympy.I, "\\infty": sympy.oo}
_OF_CONSTANTS = {value: ("s", name) for name, value in _CONSTANTS.items()}


def warm_up() -> None:
    """Compute common formulas: the first time takes SymPy ten times as long."""
    for text in _COMMON:
        closed(parse(text, fold=True))


def closed(tree: Tree) -> Tree:
    """The formula with every part computed that SymPy can compute, and the others as atoms."""
    if not isinstance(tree, tuple):
        return tree
    if tree[0] not in CALCULUS:
        return (tree[0], *(closed(part) if isinstance(part, tuple) else part for part in tree[1:]))
    try:
        return _formula(_computed(tree))
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception:  # SymPy raises many kinds on odd input; not computed
        return (f"opaque {tree[0]}", *(closed(part) if isinstance(part, tuple) else part for part in tree[1:]))


def _computed(tree: Tree) -> Any:
    kind = tree[0]
    if kind == "diff" and symbols(tree[3]) & _DEPENDENT.get(tree[1], set()):
        raise TooHard("a derivative of what may depend on the variable")
    if kind == "int" and tree[2] is None:
        raise TooHard("an integral without bounds is many functions")
    endless = any(isinstance(part, tuple) and "\\infty" in symbols(part) for part in tree)
    reader = _Reader(positive=endless and kind != "lim", counts=kind in ("sum", "prod"))
    value = reader.value(tree).doit()
    if value.has(sympy.nan, sympy.zoo, sympy.Piecewise, sympy.AccumBounds, sympy.Integral, sympy.Sum, sympy.Limit):
        raise TooHard("no closed value")
    return value


class _Reader:
    """Trees to SymPy, without evaluation of the operators."""

    def __init__(self, *, positive: bool, counts: bool) -> None:
        self.assumptions = {"positive": True} if positive or counts else {"real": True}
        self.counts = counts
        self.bound: dict[str, object] = {}

    def value(self, tree: Tree) -> Any:
        kind, *parts = tree
        if kind == "n":
            return sympy.Rational(parts[0].numerator, parts[0].denominator)
        if kind == "s":
            return self.symbol(parts[0])
        if kind == "fn":
            return self.function(*parts)
        if kind == "call":
            return sympy.Function(parts[0])(*map(self.value, parts[1:]))
        if kind in ("int", "sum", "prod", "lim"):
            return self.operator(kind, *parts)
        if kind == "diff":
            return sympy.Derivative(self.value(parts[2]), (self.symbol(parts[0]), parts[1]))
        if kind == "root":
            return (
                sympy.real_root(self.value(parts[0]), parts[1])
                if parts[1] % 2
                else sympy.sqrt(self.value(parts[0]))
                if parts[1] == 2
                else sympy.root(self.value(parts[0]), parts[1])
            )
        values = [self.value(part) for part in parts]
        operations: dict[str, Callable[..., Any]] = {
            "+": sympy.Add, "*": sympy.Mul, "-": lambda a: -a, "/": lambda a, b: a / b, "^": sympy.Pow,
            "!": sympy.factorial, "binom": sympy.binomial, "abs": sympy.Abs, "floor": sympy.floor,
            "ceil": sympy.ceiling, "deg": lambda a: a * sympy.pi / 180,
        }  # fmt: skip
        return operations[kind](*values)

    def symbol(self, name: str) -> Any:
        if name in self.bound:
            return self.bound[name]
        return _CONSTANTS[name] if name in _CONSTANTS else sympy.Symbol(name, **self.assumptions)

    def function(self, name: str, argument: Tree, base: Tree | None) -> Any:
        value = self.value(argument)
        if name in ("log", "lg"):
            return sympy.log(value, 10 if base is None else self.value(base))
        return _FUNCTIONS[name](value)

    def operator(self, kind: str, name: str, low: Tree, high: Any, body: Tree) -> Any:
        first = self.value(low)
        last = self.value(high) if isinstance(high, tuple) else high
        outside = self.bound
        is_index = kind in ("sum", "prod")
        if is_index:
            first, last = self.whole(first), self.whole(last)
        variable = sympy.Symbol(name, integer=True) if is_index else sympy.Symbol(name, real=True)
        self.bound = {**outside, name: variable}
        inside = self.value(body)
        self.bound = outside
        if kind == "lim":
            return sympy.Limit(inside, variable, first, last)
        operator = {"int": sympy.Integral, "sum": sympy.Sum, "prod": sympy.Product}[kind]
        return operator(inside, (variable, first, last))

    def whole(self, bound: Any) -> Any:
        """Indices end at whole numbers."""
        names = {symbol: sympy.Symbol(symbol.name, integer=True, positive=True) for symbol in bound.free_symbols}
        self.bound |= {symbol.name: whole for symbol, whole in names.items()}
        return bound.subs(names)


def _formula(value: Any) -> Tree:
    if value in _OF_CONSTANTS:
        return _OF_CONSTANTS[value]
    if isinstance(value, sympy.Rational):
        return ("n", Fraction(int(value.p), int(value.q)) if value.q != 1 else int(value.p))
    if isinstance(value, sympy.Symbol):
        return ("s", value.name)
    if value == -sympy.oo:
        return ("-", ("s", "\\infty"))
    if value.func in _NODES:
        return (_NODES[value.func], *map(_formula, value.args))
    if value.func in _NAMES:
        return ("fn", _NAMES[value.func], _formula(value.args[0]), None)
    if isinstance(value, sympy.Derivative):
        (variable, order), inner = value.variable_count[0], value.expr
        if len(value.variable_count) == 1 and inner.args == (variable,):
            return ("call", inner.func.__name__ + "'" * int(order), _formula(variable))
        raise TooHard("a derivative of something unknown")
    if isinstance(value, sympy.Function):
        return ("call", value.func.__name__, *map(_formula, value.args))
    raise TooHard("no formula")
