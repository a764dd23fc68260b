"""Remapping within a group, against the paper's equations in exact fractions and what they promise."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.rewards import remap_group


@pytest.mark.parametrize(
    ("scores", "remapped"),
    [
        ([0.9, 0.95, 1.0], [0.5, 0.75, 1.0]),  # all passed: over the upper half
        ([0.1, 0.2, 0.3], [0.0, 0.25, 0.5]),  # all failed: over the lower half
        ([0.2, 0.4, 0.7], [0.0, 0.4, 1.0]),  # some of each: over everything
        ([0.5, 0.9], [0.5, 1.0]),
        ([0.3, 0.5], [0.0, 0.5]),
        ([0.8, 0.8], [1.0, 1.0]),
        ([0.5, 0.5], [0.5, 0.5]),
        ([0.4, 0.4], [0.0, 0.0]),
        ([0, 0.5, 1], [0.0, 0.5, 1.0]),
        ([0.7], [1.0]),
        ([0.2, 0.5, 0.8], [0.0, 0.5, 1.0]),  # in plain floating point the middle one falls below 0.5
    ],
)
def test_scores_are_spread_over_the_range_that_the_group_earned(scores, remapped):
    assert remap_group(scores) == remapped


@pytest.mark.parametrize("missing", [None, math.nan])
def test_what_could_not_be_judged_stays_so_and_moves_no_bound(missing):
    assert remap_group([0.9, missing, 0.95, 1.0]) == [0.5, None, 0.75, 1.0]
    assert remap_group([missing, 0.8]) == [None, 1.0]
    assert remap_group([missing, missing]) == [None, None]
    assert remap_group([]) == []


def equations(scores, threshold):
    """Equations 2 and 3, exactly."""
    least, most = min(scores), max(scores)
    low = Fraction(0) if least < threshold else Fraction(1, 2)
    high = Fraction(1) if most > threshold else Fraction(1, 2)
    if least == most:
        return [high if most > threshold else low] * len(scores)
    return [(score - least) / (most - least) * (high - low) + low for score in scores]


TENTHS = st.integers(0, 20).map(lambda n: Fraction(n, 20))


@given(st.lists(TENTHS | st.none(), min_size=1, max_size=12), TENTHS)
def test_the_equations_hold_for_any_group_and_threshold_and_gates_see_the_exact_side(scores, threshold):
    judged = [score for score in scores if score is not None]
    expected = iter(equations(judged, threshold)) if judged else iter(())
    remapped = remap_group([None if score is None else float(score) for score in scores], float(threshold))
    for score, value in zip(scores, remapped, strict=True):
        if score is None:
            assert value is None
            continue
        exact = next(expected)
        assert value == pytest.approx(float(exact), abs=1e-9)
        assert (value < 0.5, value < 1) == (exact < Fraction(1, 2), exact < 1)


FLOATS = st.lists(st.floats(0, 1), min_size=2, max_size=12)


@given(FLOATS)
def test_order_is_kept_and_the_group_stays_on_its_side_of_the_threshold(scores):
    remapped = remap_group(scores)
    assert all(0 <= score <= 1 for score in remapped)
    ranked = sorted(range(len(scores)), key=lambda place: scores[place])
    assert [remapped[place] for place in ranked] == sorted(remapped)
    if max(scores) < 0.5:
        assert max(remapped) <= 0.5
    if min(scores) > 0.5:
        assert min(remapped) >= 0.5
    if min(scores) < max(scores):
        assert min(remapped) == (0.0 if min(scores) < 0.5 else 0.5)
        assert max(remapped) == (1.0 if max(scores) > 0.5 else 0.5)


@pytest.mark.parametrize(
    ("scores", "threshold"),
    [([1.1], 0.5), ([-0.1], 0.5), ([math.inf], 0.5), ([0.5], 1.5), ([0.5], -0.1), ([], math.nan)],
)
def test_what_is_no_score_or_threshold_is_refused(scores, threshold):
    with pytest.raises(ValueError, match=r"score|threshold"):
        remap_group(scores, threshold)
