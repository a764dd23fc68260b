"""Expressions with free symbols, and functions given by their rule."""

from dataclasses import dataclass, replace
from random import Random

from answers.numbers import Writer, pick_change, writer
from answers.spelling import write
from answers.trees import (
    Fn,
    Sum,
    Sym,
    Tree,
    add,
    applied,
    derivative,
    different,
    divide,
    minus,
    mul,
    num,
    power,
    reorder,
    root,
    substitute,
    symbols,
)


@dataclass(frozen=True)
class Expression:
    """An expression with free symbols, and other trees of the same function."""

    tree: Tree
    rewrites: tuple[tuple[str, Tree], ...] = ()
    kind = "expression"

    def forms(self, rng: Random) -> dict[str, Writer]:
        forms = {"written out": writer(self.tree), "reordered": writer(reorder(self.tree, rng))}
        return forms | {name: writer(tree) for name, tree in self.rewrites}

    def mutations(self, rng: Random) -> dict[str, "Expression"]:
        mutations = {"sign of all": Expression(minus(num(0), self.tree))}
        for _ in range(3):
            source = rng.choice((self.tree, *(tree for _, tree in self.rewrites)))
            if change := pick_change(source, rng, lambda tree: different(tree, self.tree)):
                mutations[change[0]] = Expression(change[1])
        return mutations

    def unequal(self, other: object) -> bool:
        return isinstance(other, Expression) and different(self.tree, other.tree)


def polynomial(coefficients: list[int], variable: str) -> Tree:
    """Return the polynomial with these coefficients, the highest first."""
    degree = len(coefficients) - 1
    terms = (
        mul(factor, power(variable, degree - place) if place < degree else 1)
        for place, factor in enumerate(coefficients)
    )
    return add(*terms)


def draw_expression(rng: Random) -> Expression:
    """Return a random expression of a random family."""
    x = rng.choice("xtyak")
    a, b, c = (rng.choice((-1, 1)) * rng.randint(1, 7) for _ in range(3))
    k = rng.randint(2, 6)
    match rng.choice(
        (
            "product",
            "square",
            "cubic",
            "two variables",
            "rational",
            "partial fractions",
            "trig",
            "trig identity",
            "exp",
            "log",
            "indexed",
            "applied",
            "derivative",
            "sum",
            "physics",
            "root",
        )
    ):
        case "product":
            factored = mul(add(mul(k, x), a), add(x, b))
            return Expression(factored, (("expanded", polynomial([k, k * b + a, a * b], x)),))
        case "square":
            return Expression(power(add(x, a), 2), (("expanded", polynomial([1, 2 * a, a * a], x)),))
        case "cubic":
            return Expression(
                polynomial([k, a, b, c], x), (("Horner", add(mul(x, add(mul(x, add(mul(k, x), a)), b)), c)),)
            )
        case "two variables":
            y = rng.choice("bmn") if x == "a" else rng.choice("bmr")
            return Expression(add(mul(a, y, power(x, 2)), mul(b, y), mul(c, x)))
        case "rational":
            return Expression(
                divide(add(mul(k, x), a), add(power(x, 2), abs(b))),
                (("split", add(divide(mul(k, x), add(power(x, 2), abs(b))), divide(a, add(power(x, 2), abs(b))))),),
            )
        case "partial fractions":
            low, high = add(x, k), add(x, k + abs(a))
            return Expression(
                add(divide(1, low), divide(1, high)),
                (("common denominator", divide(add(mul(2, x), 2 * k + abs(a)), mul(low, high))),),
            )
        case "trig":
            return Expression(add(mul(a, Fn("sin", mul(k, x))), mul(b, Fn("cos", Sym(x)))))
        case "trig identity":
            return rng.choice(
                (
                    Expression(Fn("sin", mul(2, x)), (("double angle", mul(2, Fn("sin", Sym(x)), Fn("cos", Sym(x)))),)),
                    Expression(
                        add(1, mul(-1, power(Fn("sin", Sym(x)), 2))), (("Pythagoras", power(Fn("cos", Sym(x)), 2)),)
                    ),
                    Expression(Fn("tan", Sym(x)), (("quotient", divide(Fn("sin", Sym(x)), Fn("cos", Sym(x)))),)),
                )
            )
        case "exp":
            decay = mul(-k, x)
            return Expression(
                add(mul(abs(a) + 1, power("e", decay)), b),
                (("negative exponent as fraction", add(divide(abs(a) + 1, power("e", mul(k, x))), b)),),
            )
        case "log":
            return Expression(
                add(mul(a, x, Fn("ln", Sym(x))), mul(b, x)), (("factored", mul(x, add(mul(a, Fn("ln", Sym(x))), b))),)
            )
        case "indexed":
            name = rng.choice("xam")
            return Expression(add(mul(k, f"{name}_1"), mul(-1, power(f"{name}_2", 2)), mul(a, f"{name}_3")))
        case "applied":
            letter, rate = (
                rng.choice(("I", "V", "N", "Q")),
                rng.choice((divide("t", mul("R", "C")), mul("lambda", "t"), mul(k, "t"))),
            )
            return Expression(
                mul(applied(letter, "0"), power("e", mul(-1, rate))),
                (("as a fraction", divide(applied(letter, "0"), power("e", rate))),),
            )
        case "derivative":
            return Expression(add(mul(k, derivative("y", "x")), mul(a, power("x", 2))))
        case "sum":
            body = power("k", rng.choice((1, 2)))
            closed = (
                divide(mul("n", add("n", 1)), 2)
                if body == Sym("k")
                else divide(mul("n", add("n", 1), add(mul(2, "n"), 1)), 6)
            )
            return Expression(
                mul(abs(a), Sum(body, "k", Sym("n"))),
                (
                    ("index renamed", mul(abs(a), Sum(substitute(body, "k", Sym("j")), "j", Sym("n")))),
                    ("closed form", mul(abs(a), closed)),
                ),
            )
        case "physics":
            return rng.choice(
                (
                    Expression(mul(num(1, 2), "m", power("v", 2))),
                    Expression(divide(mul("G", "m_1", "m_2"), power("r", 2))),
                    Expression(add(mul("v", "t"), mul(num(1, 2), "a", power("t", 2)))),
                    Expression(mul(2, "pi", root(divide("L", "g")))),
                    Expression(mul(num(4, 3), "pi", power("r", 3))),
                )
            )
    k = rng.choice((2, 3, 5))
    return Expression(
        root(add(power(x, 2), abs(a))),
        (("factored out", mul(root(add(mul(k, power(x, 2)), k * abs(a))), divide(1, root(k)))),),
    )


@dataclass(frozen=True)
class Function:
    """A function by its rule, such as `f(x) = x + 1`."""

    name: str
    parameter: str
    body: Expression
    kind = "function"

    def forms(self, rng: Random) -> dict[str, Writer]:
        other = rng.choice(
            [letter for letter in "xtzus" if letter != self.parameter and letter not in symbols(self.body.tree)]
        )
        forms = {}
        for form, write_body in self.body.forms(rng).items():
            forms["definition" if form == "written out" else form] = self.define(self.name, self.parameter, write_body)
        renamed = substitute(self.body.tree, self.parameter, Sym(other))
        forms["parameter renamed"] = self.define(self.name, other, writer(renamed))
        forms["rule only"] = writer(self.body.tree)
        return forms

    @staticmethod
    def define(name: str, parameter: str, write_body: Writer) -> Writer:
        return lambda style: f"{name}{style.parens(parameter)} = {write_body(style)}"

    def mutations(self, rng: Random) -> dict[str, "Function | Defined"]:
        mutations: dict[str, Function | Defined] = {}
        for name, changed in self.body.mutations(rng).items():
            if name == "variable" and self.parameter not in symbols(changed.tree):
                continue  # alone, `tan u` would answer `f(t) = tan t`
            mutations[name] = replace(self, body=changed)
        body, x = self.body.tree, self.parameter
        shifted = substitute(body, x, add(x, 1))
        if different(shifted, body):
            mutations["at another argument"] = Defined(f"{self.name}({x}+1)", body)
        mutations["derivative of it"] = Defined(f"{self.name}'({x})", body)
        mutations["parameter not renamed"] = Defined(f"{self.name}({'t' if x != 't' else 's'})", body)
        return mutations

    def unequal(self, other: object) -> bool:
        if not isinstance(other, Function):
            return isinstance(other, Defined)
        return different(self.body.tree, substitute(other.body.tree, other.parameter, Sym(self.parameter)))


@dataclass(frozen=True)
class Defined:
    """The same rule for something else: another argument or the derivative."""

    left: str
    body: Tree

    def forms(self, rng: Random) -> dict[str, Writer]:
        return {"definition": lambda style: f"{self.left} = {write(self.body, style)}"}


def draw_function(rng: Random) -> Function:
    """Return a function of one variable whose rule has no other unknown and is no solution of f' = f."""
    while True:
        body = draw_expression(rng)
        if len(symbols(body.tree)) == 1:
            (parameter,) = symbols(body.tree)
            if parameter in "xty" and body.rewrites:
                return Function(rng.choice("fgh"), parameter, body)
