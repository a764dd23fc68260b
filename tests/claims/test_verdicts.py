"""What follows from the numbers of a few seeds; intervals against scipy's distribution."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubricworks.claims.claim import Claim, Observation, judge_claim
from rubricworks.claims.t_interval import t_interval, t_quantile

BETTER = Claim(name="better", statement="One is better than the other", source="Table 1")
NOT_WORSE = Claim(name="not-worse", statement="No worse", source="Table 1", rule="not_worse", margin=0.01)
SAME = Claim(name="same", statement="Stays close", source="Table 1", rule="within", margin=0.03)


def judged(claim, *values):
    return judge_claim(claim, {seed: Observation(value) for seed, value in enumerate(values, 1)})


@given(st.integers(1, 60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_quantiles_are_those_of_students_distribution(freedom, level):
    assert t_quantile(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9))
def test_interval_of_a_mean_is_scipys(values):
    found = t_interval(values)
    error = stats.sem(values)
    if error == 0 or math.isnan(error):
        assert found == pytest.approx((values[0], values[0]))
    else:
        assert found == pytest.approx(
            stats.t.interval(0.95, len(values) - 1, sum(values) / len(values), error), abs=1e-9
        )


def test_interval_by_hand():
    # Mean 2, deviation 1, three values: 2 -+ 4.302653 / sqrt(3).
    assert t_interval([1.0, 2.0, 3.0]) == pytest.approx((-0.484138, 4.484138), abs=1e-6)
    assert t_interval([0.1, 0.1, 0.1]) == (0.1, 0.1)
    assert t_interval([0.1]) is None


@pytest.mark.parametrize(
    ("claim", "values", "verdict"),
    [
        (BETTER, (0.10, 0.11, 0.12), "holds"),
        (BETTER, (-0.10, -0.11, -0.12), "does not hold"),
        (BETTER, (0.10, 0.11, -0.12), "inconclusive"),
        (BETTER, (0.1, 0.2), "inconclusive"),  # 0.15 -+ 12.7 * 0.05
        (BETTER, (0.0, 0.0, 0.0), "does not hold"),
        (NOT_WORSE, (0.0, 0.0, 0.0), "holds"),
        (NOT_WORSE, (0.95 - 0.96,) * 3, "holds"),  # -0.010000000000000009 in floating point
        (NOT_WORSE, (-0.011, -0.0112, -0.0111), "does not hold"),
        (NOT_WORSE, (-0.011, -0.009, -0.010), "inconclusive"),
        (SAME, (0.029, 0.0291, 0.0292), "holds"),
        (SAME, (-0.01, 0.0, 0.01), "holds"),
        (SAME, (0.04, 0.0401, 0.0402), "does not hold"),
        (SAME, (-0.04, -0.0401, -0.0402), "does not hold"),
        (SAME, (0.02, 0.03, 0.04), "inconclusive"),
        (SAME, (-0.1, 0.1), "inconclusive"),
    ],
)
def test_verdict_follows_from_the_whole_interval(claim, values, verdict):
    assert judged(claim, *values).verdict == verdict


@pytest.mark.parametrize("claim", [BETTER, NOT_WORSE, SAME])
def test_one_seed_has_no_interval_and_decides_nothing(claim):
    found = judged(claim, 0.02)
    assert (found.mean, found.low, found.high, found.verdict) == (0.02, None, None, "inconclusive")


def test_seed_without_a_number_is_left_out_and_says_why():
    found = judge_claim(BETTER, {1: Observation(0.1), 2: Observation(None, "only 3 cases"), 3: Observation(0.1)})
    assert (found.mean, found.low, found.high, found.verdict) == (0.1, 0.1, 0.1, "holds")
    assert found.values == {1: 0.1, 2: None, 3: 0.1}
    assert found.notes == {2: "only 3 cases"}
    nothing = judge_claim(BETTER, {1: Observation(None, "only 3 cases")})
    assert (nothing.mean, nothing.low, nothing.verdict) == (None, None, "not measured")


def test_difference_above_0_takes_no_margin():
    with pytest.raises(ValueError, match="no margin"):
        Claim(name="x", statement="x", source="x", margin=0.1)
