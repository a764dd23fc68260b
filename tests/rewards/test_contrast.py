"""Weights by contrast: POW3R's factors by hand and by brute force, with what all meet, all miss, or nobody judged."""

from statistics import pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import Contrast, contrast_weights, signed_reward, weighted_reward

FOUR = [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 1, 0]]
"""Two of four rollouts meet the first criterion, all the second, one the third: variances 1/4, 0 and 3/16."""


def test_weights_follow_the_variance_beside_its_weighted_mean():
    # Mean variance (3/4 + 0 + 3/16) / 6 = 5/32; ratios 8/5, 0 and 6/5; factors 1.3, 0.5 and 1.1.
    assert contrast_weights(FOUR, [3, 2, 1]) == pytest.approx([3.9, 1.0, 1.1])
    assert contrast_weights(FOUR, [3, 2, 1], Contrast(strength=0.2)) == pytest.approx([3.36, 1.6, 1.04])


@pytest.mark.parametrize("same", [0, 1])
def test_a_criterion_that_all_meet_or_all_miss_has_the_floor(same):
    group = [[1, same], [0, same]]
    # Mean variance (1/4) / 2 = 1/8, ratios 2 and 0.
    assert contrast_weights(group, [1, 1], Contrast(strength=0.9)) == pytest.approx([1.9, 0.1])


def test_a_group_without_any_contrast_keeps_the_rubric_as_it_is():
    assert contrast_weights([[1, 0]] * 4, [3, 1]) == [3, 1]


def test_the_largest_factor_is_cut_and_the_rest_shared():
    group = [[float(rollout)] + [1.0] * 9 for rollout in (0, 1)]
    # Factor 0.5 + 0.5 * 10 = 5.5, cut to 4; nine others of 0.5: 8.5 together, scaled to 10.
    assert contrast_weights(group, [1.0] * 10) == pytest.approx([4 / 0.85] + [0.5 / 0.85] * 9)


def test_pitfalls_are_weighed_among_themselves():
    group = [[1, 1, 0, 1], [1, 0, 1, 1]]
    # The second criterion takes from the first; the third and the fourth, both pitfalls, share their own 3.
    weights = contrast_weights(group, [2, 2, -2, -1])
    # Positives: mean variance 1/8, ratios 0 and 2. Pitfalls: mean (2 * 1/4) / 3 = 1/6, ratios 3/2 and 0.
    assert weights == pytest.approx([1, 3, -2.5, -0.5])
    assert [signed_reward(credits, weights) for credits in group] == pytest.approx([(4 - 0.5) / 4, 0.0])


def test_what_was_not_judged_is_left_out_and_never_counts_as_missed():
    judged = [[1, 1], [1, 0], [0, 0], [0, 1]]
    # Three of four verdicts are enough: variance of (1, 1, 0) is 2/9 beside 1/4.
    torn = [[1, 1], [1, 0], [0, 0], [None, 1]]
    mean = (2 / 9 + 1 / 4) / 2
    assert contrast_weights(torn, [1, 1]) == pytest.approx([0.5 + 0.5 * v / mean for v in (2 / 9, 1 / 4)])
    assert contrast_weights(judged, [1, 1]) == pytest.approx([1, 1])
    # Two of four are not: the criterion keeps its own weight, as the others have no contrast to be weighed by.
    assert contrast_weights([[1, 1], [0, 1], [None, 1], [None, 1]], [2, 1]) == [2, 1]
    # And beside one that has: factor 1 before the sum is kept.
    group = [[1, 1, 1], [0, 1, 0], [None, 1, 1], [None, 1, 0]]
    # Known: 0 and 1/4 of weights 1 and 1: ratios 0 and 2, factors 0.5 and 1.5; unknown 1. Sum 2 + 0.5 + 1.5 = 4.
    assert contrast_weights(group, [2, 1, 1]) == pytest.approx([2, 0.5, 1.5])
    assert weighted_reward(group[2], contrast_weights(group, [2, 1, 1])) is None


def test_no_verdict_at_all_keeps_the_weights():
    assert contrast_weights([[None, None]] * 4, [3, 1]) == [3, 1]


@given(
    st.lists(st.lists(st.sampled_from([0, 0.5, 1]), min_size=4, max_size=4), min_size=2, max_size=8),
    st.lists(st.sampled_from([1, 2, 3]), min_size=4, max_size=4),
    st.floats(0.05, 0.95),
)
def test_factors_are_those_of_brute_force_and_keep_the_sum(group, weights, strength):
    weighted = contrast_weights(group, weights, Contrast(strength=strength, ceiling=100))
    variances = [pvariance([row[column] for row in group]) for column in range(4)]
    mean = sum(w * v for w, v in zip(weights, variances, strict=True)) / sum(weights)
    ratios = [v / mean for v in variances] if mean else [1] * 4
    assert weighted == pytest.approx([w * (1 - strength + strength * r) for w, r in zip(weights, ratios, strict=True)])
    assert sum(weighted) == pytest.approx(sum(weights))
    assert all(0 <= weighted_reward(row, weighted) <= 1 + 1e-12 for row in group)


def test_a_group_of_one_and_torn_rows_are_refused():
    with pytest.raises(ValueError, match="a group needs at least 2"):
        contrast_weights([[1, 0]], [1, 1])
    with pytest.raises(ValueError, match="1 credits for 2 weights"):
        contrast_weights([[1, 0], [1]], [1, 1])
