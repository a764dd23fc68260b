"""The weighted share, against fractions and its own bounds."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rubricworks.rewards import weighted_reward


@pytest.mark.parametrize(
    ("credits", "weights", "reward"),
    [
        ([1, 1, 1], [3, 2, 1], 1.0),
        ([0, 0, 0], [3, 2, 1], 0.0),
        ([1, 0, 0], [3, 2, 1], 0.5),
        ([0, 1, 1], [3, 2, 1], 0.5),
        ([0.5, 1], [1, 3], 0.875),
        ([1], [0.1], 1.0),
    ],
)
def test_it_is_the_share_of_the_weight_that_was_earned(credits, weights, reward):
    assert weighted_reward(credits, weights) == pytest.approx(reward)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_one_unjudged_criterion_leaves_no_reward(missing):
    assert weighted_reward([1, missing, 0], [3, 2, 1]) is None
    assert weighted_reward([missing], [1]) is None


WEIGHTS = st.integers(1, 1000).map(lambda n: n / 10)
PAIRS = st.lists(st.tuples(st.integers(0, 10).map(lambda n: n / 10), WEIGHTS), min_size=1, max_size=20)


@given(PAIRS)
def test_it_agrees_with_exact_fractions_and_stays_between_0_and_1(pairs):
    credits, weights = zip(*pairs, strict=True)
    earned = sum(Fraction(credit) * Fraction(weight) for credit, weight in pairs)
    reward = weighted_reward(credits, weights)
    assert reward == pytest.approx(float(earned / sum(map(Fraction, weights))))
    assert 0 <= reward <= 1


@given(PAIRS, st.randoms(use_true_random=False), st.floats(0.1, 100))
def test_neither_order_nor_a_common_factor_of_the_weights_matters(pairs, random, factor):
    shuffled = list(pairs)
    random.shuffle(shuffled)
    reward = weighted_reward([c for c, _ in pairs], [w for _, w in pairs])
    assert weighted_reward([c for c, _ in shuffled], [w * factor for _, w in shuffled]) == pytest.approx(reward)


@given(PAIRS, st.integers(0, 19))
def test_meeting_one_more_criterion_never_costs(pairs, index):
    assume(index < len(pairs))
    better = [(1.0 if place == index else credit, weight) for place, (credit, weight) in enumerate(pairs)]
    assert weighted_reward(*zip(*better, strict=True)) >= weighted_reward(*zip(*pairs, strict=True))


@pytest.mark.parametrize(
    ("credits", "weights"),
    [
        ([1], [1, 2]),
        ([], []),
        ([1], [0]),
        ([1], [-1]),
        ([1], [math.inf]),
        ([1], [math.nan]),
        ([1.1], [1]),
        ([-0.1], [1]),
        ([None, 2], [1, 1]),
    ],
)
def test_what_is_no_rubric_or_no_credit_is_refused(credits, weights):
    with pytest.raises(ValueError):
        weighted_reward(credits, weights)
