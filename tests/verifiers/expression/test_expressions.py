"""Expressions: pairs that are equal and pairs that are not, what is unreadable, and exact arithmetic against SymPy."""

from fractions import Fraction
from pathlib import Path

import pytest
import sympy
from hypothesis import assume, example, given
from hypothesis import strategies as st

from rubricworks.verifiers import CannotVerify, expr_verify


def lines(file: str) -> list[str]:
    return [line for line in (Path(__file__).parent / file).read_text().splitlines() if line and line[:2] != "# "]


LINES, EVERYDAY = lines("pairs.txt"), lines("everyday.txt")
FALSE_POSITIVES_OF_MATH_VERIFY = [
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
    ("2^{-99}", "2^{-98}"),
    ("3x-1y+13=0", "3x+4y+14=0"),
    (r"10\%", "10"),
    (r"0.\overline{3}", "0"),
    ("2(3)", "5"),
]


@pytest.mark.parametrize("line", LINES)
def test_pair_is_the_same_or_not(line):
    equal = " == " in line
    target, answer = line.split(" == " if equal else " <> ")
    assert expr_verify(answer, target=target) == equal


@pytest.mark.parametrize("line", EVERYDAY)
def test_everyday_pair_is_the_same_or_not_whichever_side_is_the_target(line):
    equal = " == " in line
    left, other = line.split(" == " if equal else " <> ")
    assert score(other, left) == score(left, other) == equal


def score(answer: str, target: str) -> float:
    """The score; 0 where a text that states nothing is no target."""
    try:
        return expr_verify(answer, target=target)
    except CannotVerify:
        return 0.0


@pytest.mark.parametrize("line", [line for line in LINES if " and " not in line and "is" not in line])
def test_dollar_signs_change_nothing(line):
    equal = " == " in line
    target, answer = line.split(" == " if equal else " <> ")
    if "$" not in line and "boxed" not in line and "€" not in line:
        assert expr_verify(f"${answer}$", target=f"$${target}$$") == equal


@pytest.mark.parametrize(("target", "answer"), FALSE_POSITIVES_OF_MATH_VERIFY, ids=str)
def test_what_math_verify_wrongly_takes_for_equal_is_not(target, answer):
    assert expr_verify(answer, target=target) == expr_verify(target, target=answer) == 0


@pytest.mark.parametrize(
    "answer", ["", "  ", "\n", None, [], ["5"], True, "???", r"\frac{1}{", "1/0", "5 )", "\ud800", "\0"]
)
def test_an_answer_that_says_nothing_readable_scores_nothing(answer):
    assert expr_verify(answer, target="5") == 0
    assert expr_verify(answer, target=r"\int_0^1 x\,dx") == 0


@pytest.mark.parametrize(
    "target",
    ["", "  ", None, ["5"], r"\frac{1}{", "???", "5 )", "the man is wearing a red hat", "1/0", "5" * 20_001, "\ud800"],
    ids=lambda target: str(target)[:20],
)
def test_a_target_that_cannot_be_read_is_an_error_with_one_line(target):
    with pytest.raises(CannotVerify) as error:
        expr_verify("5", target=target)
    assert "\n" not in str(error.value)


def test_numbers_need_no_quotes():
    assert expr_verify(5, target="5") == expr_verify("0.5", target=0.5) == expr_verify(0.5, target="1/2") == 1


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), None, "2"])
def test_a_time_limit_is_a_positive_number(timeout):
    with pytest.raises(ValueError, match="timeout"):
        expr_verify("5", target="5", timeout=timeout)


def latex_of(value: Fraction) -> str:
    return f"{'-' if value < 0 else ''}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def is_season(value: Fraction) -> bool:
    return value.numerator // 100 in (19, 20) and (value.numerator + 1) % 100 == value.denominator


@given(st.fractions(max_denominator=1000), st.fractions(max_denominator=1000))
@example(Fraction(0), Fraction(6139, 40))
def test_two_fractions_are_equal_exactly_when_they_are(a, b):
    assume(not is_season(a) and not is_season(a + b))
    assert expr_verify(latex_of(b), target=str(a)) == (a == b)
    assert expr_verify(f"{latex_of(a)}+{latex_of(b)}", target=str(a + b)) == 1


def test_two_years_in_a_row_are_a_season_and_no_fraction():
    assert expr_verify("2019/20", target="2019/20") == 1
    assert expr_verify("100.95", target="2019/20") == expr_verify("2019/21", target="2019/20") == 0
    assert expr_verify("\\frac{1819}{20}", target="1819/20") == 1


@given(st.decimals(-(10**12), 10**12, places=3), st.integers(0, 5))
def test_a_number_is_the_same_with_separators_of_thousands_and_zeros_at_the_end(value, zeros):
    assert expr_verify(f"{value:,}" + "0" * zeros, target=str(value)) == 1
    assert expr_verify(str(Fraction(value)), target=str(value)) == 1
    assert expr_verify(str(value + 1), target=str(value)) == 0


coefficients = st.lists(st.integers(-6, 6), min_size=2, max_size=4)


def polynomial(numbers: list[int]) -> sympy.Expr:
    return sum((number * sympy.Symbol("x") ** power for power, number in enumerate(numbers)), sympy.Integer(0))


@given(coefficients, coefficients, st.integers(1, 9))
def test_a_product_is_equal_to_its_expansion_and_to_nothing_else(first, second, more):
    a, b = polynomial(first), polynomial(second)
    factored, expanded = f"({sympy.latex(a)})({sympy.latex(b)})", sympy.expand(a * b)
    assert expr_verify(sympy.latex(expanded), target=factored) == 1
    assert expr_verify(sympy.latex(expanded + more), target=factored) == 0


@given(st.integers(1, 40), st.integers(1, 400), st.integers(1, 40), st.integers(1, 400))
def test_radicals_are_equal_exactly_when_their_squares_are(a, m, b, n):
    assert expr_verify(rf"{b}\sqrt{{{n}}}", target=rf"{a}\sqrt{{{m}}}") == (a * a * m == b * b * n)
    assert expr_verify(rf"\frac{{{a}\sqrt{{{m}}}}}{{{m}}}", target=rf"\frac{{{a}}}{{\sqrt{{{m}}}}}") == 1


TOKENS = r"\frac { } ( ) [ ] 1 2 x y + - * / ^ _ \sqrt \pi e i ! | \sin \ln \infty , ; = < \leq \pm % cm"


@given(st.lists(st.sampled_from(TOKENS.split()), min_size=1, max_size=12).map(" ".join))
def test_any_tokens_are_equal_to_themselves_or_unreadable(text):
    try:
        assert expr_verify(text, target=text, timeout=0.5) in (0, 1)
        assert expr_verify("123456789.25", target=text, timeout=0.5) == 0
    except CannotVerify:
        pass
