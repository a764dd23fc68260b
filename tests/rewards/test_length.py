"""Gate and penalty by length, at their edges and against exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import length_gate, linear_length_penalty


@pytest.mark.parametrize(
    ("pred_len", "open_"), [(49, False), (50, True), (100, True), (200, True), (201, False), (0, False)]
)
def test_gate_is_open_from_half_to_twice_the_reference_ends_included(pred_len, open_):
    assert length_gate(pred_len, 100) is open_


LENGTHS = {"pred_len": st.integers(0, 2_000), "ref_len": st.integers(1, 2_000)}
BOUNDS = {"low": st.integers(0, 20), "width": st.integers(0, 60)}


@given(**LENGTHS, **BOUNDS)
def test_gate_is_exact_for_bounds_in_tenths(pred_len, ref_len, low, width):
    ratio = Fraction(pred_len, ref_len)
    inside = Fraction(low, 10) <= ratio <= Fraction(low + width, 10)
    assert length_gate(pred_len, ref_len, low / 10, (low + width) / 10) is inside


@given(**LENGTHS, **BOUNDS, scale=st.integers(0, 50))
def test_penalty_is_the_distance_from_the_range_and_nothing_inside(pred_len, ref_len, low, width, scale):
    ratio, lower, upper = Fraction(pred_len, ref_len), Fraction(low, 10), Fraction(low + width, 10)
    distance = max(ratio - upper, 0) + max(lower - ratio, 0)
    bounds = (low / 10, (low + width) / 10)
    penalty = linear_length_penalty(pred_len, ref_len, *bounds, scale / 10)
    assert penalty == pytest.approx(float(distance * scale / 10), abs=1e-9)
    if length_gate(pred_len, ref_len, *bounds):
        assert penalty == 0


def test_penalty_of_a_caption_three_times_as_long_is_the_scale():
    assert linear_length_penalty(300, 100, 0.5, 2.0, 0.7) == pytest.approx(0.7)
    assert linear_length_penalty(0, 100, 0.5, 2.0, 0.7) == pytest.approx(0.35)


def test_no_upper_bound_is_infinity():
    assert length_gate(10_000, 1, 0.5, math.inf)
    assert linear_length_penalty(10_000, 1, 0.5, math.inf, 1.0) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 0, 0.5, 2.0), "reference is empty"),
        ((-1, 5, 0.5, 2.0), "at least 0"),
        ((1, -5, 0.5, 2.0), "at least 0"),
        ((1, 5, 2.0, 0.5), "lower <= upper"),
        ((1, 5, -0.5, 2.0), "lower <= upper"),
        ((1, 5, math.nan, 2.0), "lower <= upper"),
        ((1, 5, 0.5, math.nan), "lower <= upper"),
    ],
)
def test_what_has_no_ratio_or_no_range_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        length_gate(*arguments)
    with pytest.raises(ValueError, match=message):
        linear_length_penalty(*arguments, 1.0)


@pytest.mark.parametrize("scale", [-1, math.nan, math.inf])
def test_a_scale_is_a_number_that_does_not_reward(scale):
    with pytest.raises(ValueError, match="scale"):
        linear_length_penalty(1, 1, 0.5, 2.0, scale)
