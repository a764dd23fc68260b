"""The harmonic mean of three, against exact fractions and its bounds."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.metrics import b_capscore

PARTS = st.just(0.0) | st.floats(1e-9, 1)


def test_b_capscore_is_the_harmonic_mean():
    assert b_capscore(1, 1, 1) == 1
    assert b_capscore(0.25, 0.25, 0.25) == 0.25
    assert b_capscore(1 / 2, 1 / 3, 1 / 6) == pytest.approx(3 / 11)


@pytest.mark.parametrize("parts", [(0, 1, 1), (1, 0.0, 1), (1, 1, 0), (0, 0, 0)])
def test_one_part_of_0_leaves_nothing(parts):
    assert b_capscore(*parts) == 0


@given(PARTS, PARTS, PARTS)
def test_it_agrees_with_exact_fractions_and_never_exceeds_three_times_the_least(precision, recall, linguistic):
    parts = (precision, recall, linguistic)
    score = b_capscore(*parts)
    exact = 3 / sum(1 / Fraction(part) for part in parts) if all(parts) else 0
    assert score == pytest.approx(float(exact), rel=1e-12)
    assert min(parts) * (1 - 1e-12) <= score <= min(max(parts), 3 * min(parts)) * (1 + 1e-12)


@pytest.mark.parametrize("part", [-0.1, 1.1, 56.1, math.nan, math.inf, None])
def test_what_is_no_share_is_refused_by_name(part):
    with pytest.raises(ValueError, match="precision"):
        b_capscore(part, 1, 1)
    with pytest.raises(ValueError, match="recall"):
        b_capscore(0, part, 1)
    with pytest.raises(ValueError, match="linguistic"):
        b_capscore(1, 0, part)
