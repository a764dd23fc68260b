"""The reward of a rubric with pitfalls, against HealthBench's published score and exact fractions."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import hierarchical_reward, signed_reward, weighted_reward

WEIGHTS = st.integers(-100, 100).filter(bool).map(float)
ROWS = st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), WEIGHTS), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("credits", "weights", "reward"),
    [
        ([1, 1, 0], [7, 3, -5], 1.0),  # HealthBench's calculate_score: achieved points over the possible ones
        ([1, 0, 1], [7, 3, -5], 0.2),
        ([0, 1, 1], [7, 3, -5], 0.0),  # -0.2, clipped as HealthBench clips its mean
        ([0.5, 1, 0.5], [4, 4, -4], 0.5),
    ],
)
def test_met_pitfalls_are_taken_from_what_was_earned(credits, weights, reward):
    assert signed_reward(credits, weights) == pytest.approx(reward)


@given(ROWS)
def test_it_agrees_with_exact_fractions(rows):
    credits, weights = zip(*rows, strict=True)
    positive = sum(Fraction(weight) for weight in weights if weight > 0)
    if not positive:
        with pytest.raises(ValueError, match="positive"):
            signed_reward(credits, weights)
        return
    exact = sum(Fraction(credit) * Fraction(weight) for credit, weight in rows) / positive
    assert signed_reward(credits, weights) == pytest.approx(float(min(max(exact, Fraction(0)), Fraction(1))))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 100)), min_size=1, max_size=12))
def test_without_pitfalls_it_is_the_weighted_reward_to_the_last_bit(rows):
    credits, weights = zip(*rows, strict=True)
    assert signed_reward(credits, weights) == weighted_reward(credits, weights)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_an_unjudged_pitfall_leaves_no_reward(missing):
    assert signed_reward([1, missing], [3, -2]) is None


@pytest.mark.parametrize(
    ("credits", "weights"),
    [([1], [-1]), ([], []), ([1, 1], [1, 0]), ([1, 1], [1, math.nan]), ([1, 1], [1, -math.inf]), ([1], [1, -1])],
)
def test_what_cannot_be_earned_or_is_no_number_is_refused(credits, weights):
    with pytest.raises(ValueError):
        signed_reward(credits, weights)


def test_the_essential_gate_refuses_pitfalls():
    with pytest.raises(ValueError, match="pitfall"):
        hierarchical_reward([1, 0], [3, -1], essential=[True, False])
