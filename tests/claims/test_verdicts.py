"""Verdicts on claims from the numbers of a few seeds."""

import pytest

from rubricworks.claims.claim import Claim, Observation, judge_claim

BETTER = Claim(name="better", statement="One is better than the other", source="Table 1")
NOT_WORSE = Claim(name="not-worse", statement="No worse", source="Table 1", rule="not_worse", margin=0.01)
SAME = Claim(name="same", statement="Stays close", source="Table 1", rule="within", margin=0.03)


def judged(claim, *values):
    return judge_claim(claim, {seed: Observation(value) for seed, value in enumerate(values, 1)})


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
    result = judged(claim, 0.02)
    assert (result.mean, result.low, result.high, result.verdict) == (0.02, None, None, "inconclusive")


def test_a_seed_without_a_number_leaves_the_verdict_incomplete_and_says_why():
    result = judge_claim(BETTER, {1: Observation(0.1), 2: Observation(None, "only 3 cases"), 3: Observation(0.1)})
    assert (result.mean, result.low, result.high, result.verdict) == (0.1, 0.1, 0.1, "incomplete")
    assert result.values == {1: 0.1, 2: None, 3: 0.1}
    assert result.notes == {2: "only 3 cases"}
    nothing = judge_claim(BETTER, {1: Observation(None, "only 3 cases")})
    assert (nothing.mean, nothing.low, nothing.verdict) == (None, None, "not measured")


def test_difference_above_0_takes_no_margin():
    with pytest.raises(ValueError, match="no margin"):
        Claim(name="x", statement="x", source="x", margin=0.1)
