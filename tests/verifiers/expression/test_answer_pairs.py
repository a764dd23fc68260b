"""The generator of answer pairs: what it covers, and that its truth holds by SymPy, which it does not use itself."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
import sympy
from answer_pairs import CONTRADICTIONS, DRAWS, KINDS, TAUTOLOGIES, Pair, pairs
from answers.real_sets import INFINITY, Piece, RealSet
from answers.relations import Equation, Relation
from answers.spelling import LATEX_WRAPPERS, PLAIN_WRAPPERS, Style, write
from answers.trees import (
    Add,
    Atom,
    Fn,
    Mul,
    Num,
    Pow,
    Sum,
    Sym,
    Tree,
    add,
    changes,
    divide,
    minus,
    mul,
    num,
    power,
    reorder,
)
from sympy.parsing.sympy_parser import (
    convert_xor,
    implicit_multiplication,
    parse_expr,
    standard_transformations,
)

SAMPLE: list[Pair] = list(pairs(2600, seed=11))
CONSTANTS = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I}
FUNCTIONS = {"ln": sympy.log, "exp": sympy.exp, "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan}
# What issue after issue reported: a verifier that overlooks one of these credits wrong answers.
MUTATIONS = {
    "number": {"sign", "value", "scale of ten", "exponent", "coefficient", "hundredfold", "digits", "two values"},
    "quantity": {"value", "unit", "scale of unit", "scale", "converted the wrong way"},
    "expression": {"sign", "coefficient", "exponent", "variable", "index", "derivative order", "another argument"},
    "function": {"at another argument", "derivative of it", "parameter not renamed", "dropped term"},
    "equation": {"prime removed", "derivative order", "derivative dropped", "coefficient", "sign", "left side only"},
    "relation": {"strictness", "direction", "order of a chain", "equal instead", "dropped part"},
    "interval": {"bracket", "bound", "other side", "sign of bound", "dropped piece", "variable", "gap instead"},
    "set": {"changed member", "dropped member", "added member", "tuple instead"},
    "list": {"changed member", "dropped member", "added member", "one of them", "sign of a member"},
    "point": {"order", "entry", "sign of an entry", "dropped entry", "added entry", "set instead"},
    "matrix": {"entry", "transposed", "rows swapped", "columns swapped", "dropped row", "determinant"},
    "choice": {"letter", "added letter", "dropped letter", "either of two"},
    "text": {"other words", "negated", "subscript", "charge"},
}


def test_the_same_seed_gives_the_same_pairs_and_another_seed_others():
    assert list(pairs(100, seed=11)) == SAMPLE[:100]
    assert [pair.predict for pair in pairs(100, seed=12)] != [pair.predict for pair in SAMPLE[:100]]


def test_every_kind_has_as_many_equal_pairs_as_unequal_ones():
    counts = Counter((pair.kind, pair.equal) for pair in SAMPLE)
    assert counts == {(kind, equal): 100 for kind in KINDS for equal in (True, False)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_mutation_of_a_kind_occurs(kind: str):
    names = {pair.change.split(" | ")[0] for pair in SAMPLE if pair.kind == kind and not pair.equal}
    assert names >= {"fixed string", "another value"}
    rng, certain = Random(1), set()
    for value in (DRAWS[kind](rng) for _ in range(150)):
        certain |= {name for name, wrong in value.mutations(rng).items() if value.unequal(wrong)}
    assert certain >= MUTATIONS[kind]


def test_every_wrapper_and_every_string_that_games_verifiers_occurs():
    wrappers = {pair.change.split(" | ")[-1] for pair in SAMPLE if pair.equal}
    assert wrappers >= {*LATEX_WRAPPERS, *PLAIN_WRAPPERS}
    assert {pair.predict for pair in SAMPLE if pair.change == "fixed string"} >= {*CONTRADICTIONS, *TAUTOLOGIES}
    assert "" in {pair.predict for pair in SAMPLE if pair.change == "empty"}
    assert {pair.kind for pair in SAMPLE if pair.change.startswith("denied")} >= {
        "number",
        "interval",
        "matrix",
        "choice",
    }


def to_sympy(tree: Tree) -> sympy.Expr:
    """Return a tree as SymPy's expression, built node by node; an atom is a symbol."""
    match tree:
        case Num(value):
            return sympy.Rational(value.numerator, value.denominator)
        case Sym(name):
            return CONSTANTS.get(name, sympy.Symbol(name))
        case Atom(latex):
            return sympy.Symbol(latex[0])
        case Add(terms):
            return sympy.Add(*map(to_sympy, terms))
        case Mul(factors):
            return sympy.Mul(*map(to_sympy, factors))
        case Pow(base, exponent):
            return to_sympy(base) ** to_sympy(exponent)
        case Sum(body, index, last):
            return sympy.Sum(to_sympy(body), (sympy.Symbol(index), 1, to_sympy(last))).doit()
        case Fn(name, argument) if name.startswith("log_"):
            return sympy.log(to_sympy(argument), int(name[4:]))
        case Fn(name, argument):
            return FUNCTIONS[name](to_sympy(argument))
    raise TypeError(tree)


def gap(left: sympy.Expr, right: sympy.Expr) -> float:
    """Return how far apart two expressions are at a rational point, relative to their size, with 30 digits."""
    names = sorted(left.free_symbols | right.free_symbols, key=str)
    point = {symbol: sympy.Rational(17 + 7 * place, 23) for place, symbol in enumerate(names)}
    point |= {symbol: sympy.Integer(5) for symbol in names if symbol.name == "n"}
    first, second = (expression.subs(point).evalf(30) for expression in (left, right))
    return float(abs(first - second) / max(abs(first), abs(second), sympy.Float("1e-30")))


@pytest.mark.parametrize("kind", ["number", "expression"])
def test_rewritten_values_are_equal_and_changed_ones_unequal_by_sympy(kind: str):
    rng = Random(3)
    for value in (DRAWS[kind](rng) for _ in range(70)):
        tree = to_sympy(value.tree)
        for name, rewritten in (*value.rewrites, ("reordered", reorder(value.tree, rng))):
            assert gap(tree, to_sympy(rewritten)) < 1e-25, (name, value)
            assert not value.unequal(replace(value, tree=rewritten)), (name, value)
        for name, wrong in value.mutations(rng).items():
            if kind in getattr(wrong, "kind", "") and value.unequal(wrong):
                assert gap(tree, to_sympy(wrong.tree)) > 1e-7, (name, value, wrong)


def test_what_is_written_in_ascii_is_read_back_by_sympy_as_the_same():
    rng = Random(4)
    rules = (*standard_transformations, convert_xor, implicit_multiplication)
    # Names that SymPy would take for something else.
    names = {letter: sympy.Symbol(letter) for letter in ("N", "Q", "I", "C", "E", "S")} | CONSTANTS | FUNCTIONS
    names |= {"log_2": lambda value: sympy.log(value, 2), "log_3": lambda value: sympy.log(value, 3)}
    count = 0
    for value in (DRAWS[kind](rng) for _ in range(120) for kind in ("number", "expression")):
        trees = [
            value.tree,
            *(rewritten for _, rewritten in value.rewrites),
            *(tree for _, tree in changes(value.tree)),
        ]
        tree = rng.choice(trees)
        text = write(tree, Style("ascii", rng))
        if any(word in text for word in ("d", "sum", "(0)", "V(1)", "I(1)", "N(1)", "Q(1)", "lambda", "ln(1)")):
            continue  # derivatives, sums and applied functions, which SymPy does not read
        count += 1
        assert gap(to_sympy(tree), parse_expr(text, names, rules)) < 1e-25, (text, tree)
    assert count > 150


@pytest.mark.parametrize(
    ("tree", "ascii_text", "latex"),
    [
        (divide(1, power("e", mul(2, "a"))), "1/e^(2a)", r"\frac{1}{e^{2\cdot a}}"),
        (divide("t", mul("R", "C")), "t/(R*C)", r"\frac{t}{R\cdot C}"),
        (divide(1, mul(2, add("x", 1))), "1/(2(x+1))", r"\frac{1}{2\cdot (x+1)}"),
        (mul(-1, add("x", -2)), "-(x-2)", "-(x-2)"),
        (minus(num(0), add("x", -2)), "-x+2", "-x+2"),
        (power(add("x", 1), 2), "(x+1)^2", "(x+1)^{2}"),
        (power(power("x", 2), num(1, 2)), "sqrt(x^2)", r"\sqrt{x^{2}}"),
        (power(mul(2, "x"), 3), "(2x)^3", r"(2\cdot x)^{3}"),
        (power(num(-2), 2), "(-2)^2", "(-2)^{2}"),
        (mul(num(3, 4), "x"), "3x/4", r"\frac{3\cdot x}{4}"),
        (mul(3, power(3, "n")), "3*3^n", r"3 \cdot 3^{n}"),
        (mul(Fn("sin", Sym("x")), "y"), "y*sin(x)", r"y\cdot \sin(x)"),
    ],
)
def test_a_tree_is_written_with_the_parentheses_that_it_needs(tree, ascii_text, latex):
    for dialect, text in (("ascii", ascii_text), ("latex", latex)):
        style = Style(dialect, Random(0))
        style.fraction, style.times = (r"\frac", r"\cdot ") if style.latex else ("/", "*")
        style.left_right, style.coefficient_first, style.careful = False, False, True
        written = write(tree, style).replace(" + ", "+").replace(" - ", "-")
        assert written == text


def piece_in_sympy(piece: Piece) -> sympy.Set:
    low, high = (
        (sympy.oo if bound > 0 else -sympy.oo) if isinstance(bound, float) else to_sympy(bound)
        for bound in (piece.low, piece.high)
    )
    return sympy.Interval(low, high, not piece.low_closed, not piece.high_closed)


def test_changed_sets_of_reals_are_other_sets_by_sympy():
    rng = Random(5)
    compared = Counter()
    for value in (DRAWS["interval"](rng) for _ in range(60)):
        mine = sympy.Union(*map(piece_in_sympy, value.pieces))
        for name, wrong in value.mutations(rng).items():
            theirs = sympy.Union(*map(piece_in_sympy, wrong.pieces))
            if name != "variable":
                assert value.unequal(wrong) == (mine != theirs), (name, value, wrong)
                compared[mine != theirs] += 1
        same = RealSet(value.pieces[::-1], value.variable)
        assert not value.unequal(same), value
    assert compared[True] > 150


@pytest.mark.parametrize(
    ("piece", "interval", "inequality", "flipped"),
    [
        (Piece(num(1), num(3), True, False), "[1,3)", "1 <= x < 3", "3 > x >= 1"),
        (Piece(num(-1, 2), num(3), False, True), "(-1/2,3]", "-1/2 < x <= 3", "3 >= x > -1/2"),
        (Piece(num(2), INFINITY, True), "[2,inf)", "x >= 2", "2 <= x"),
        (Piece(num(2), INFINITY), "(2,inf)", "x > 2", "2 < x"),
        (Piece(-INFINITY, num(2), False, True), "(-inf,2]", "x <= 2", "2 >= x"),
        (Piece(-INFINITY, num(2)), "(-inf,2)", "x < 2", "2 > x"),
    ],
)
def test_an_interval_is_written_with_its_bounds_and_brackets(piece, interval, inequality, flipped):
    style = Style("ascii", Random(0))
    style.careful = False
    assert piece.interval(style) == interval
    assert piece.inequality("x", style, False) == inequality
    assert piece.inequality("x", style, True) == flipped


def test_changed_matrices_are_other_matrices_by_sympy():
    rng = Random(6)
    compared = Counter()
    for value in (DRAWS["matrix"](rng) for _ in range(40)):
        mine = sympy.Matrix([[to_sympy(entry) for entry in row] for row in value.rows])
        for name, wrong in value.mutations(rng).items():
            if hasattr(wrong, "rows"):
                theirs = sympy.Matrix([[to_sympy(entry) for entry in row] for row in wrong.rows])
                assert value.unequal(wrong) == (mine != theirs), (name, value, wrong)
                compared[mine != theirs] += 1
    assert compared[True] > 150
    assert compared[False] > 0  # a single column that is mirrored is the same: the generator does not yield it


def ratios(left: Tree, right: Tree) -> list[float]:
    """Return the ratio of two expressions at two rational points."""
    expressions = to_sympy(left), to_sympy(right)
    names = sorted(expressions[0].free_symbols | expressions[1].free_symbols, key=str)
    points = (
        {name: sympy.Rational(101 + step * place + place**3, 97) for place, name in enumerate(names)}
        for step in (37, 59)
    )
    return [float(expressions[0].subs(point) / expressions[1].subs(point)) for point in points]


def test_rewritten_equations_are_multiples_of_each_other_and_changed_ones_not():
    rng = Random(7)
    changed = 0
    for value in (DRAWS["equation"](rng) for _ in range(60)):
        for name, left, right in value.rewrites:
            first, second = ratios(value.difference, minus(left, right))
            assert first == pytest.approx(second), (name, value)
            assert not value.unequal(Equation(left, right)), (name, value)
        for name, wrong in value.mutations(rng).items():
            if isinstance(wrong, Equation) and value.unequal(wrong):
                first, second = ratios(value.difference, wrong.difference)
                assert first != pytest.approx(second), (name, value, wrong)
                changed += 1
    assert changed > 100


def test_relations_that_are_scaled_or_flipped_are_never_taken_for_unequal():
    rng = Random(8)
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
    for value in (DRAWS["relation"](rng) for _ in range(40)):
        turned = Relation(value.trees[::-1], tuple(flipped[sign] for sign in value.signs[::-1]))
        assert not value.unequal(turned), value
        assert not value.unequal(Relation(tuple(mul(3, tree) for tree in value.trees), value.signs)), value
