"""p-values of paired differences, and their correction for the number of comparisons."""

import numpy as np
import pytest
from scipy import stats

from rubricworks.metrics import holm, paired_p_value


def test_holm_corrects_as_in_a_worked_example():
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    # 4 * 0.005, 3 * 0.01, 2 * 0.03, and 1 * 0.04 raised to the one before it.
    assert corrected == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({}) == {}
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("count", [2, 3, 5, 30, 400])
def test_p_values_are_those_of_scipys_t_test(count):
    draws = np.random.default_rng(count)
    for shift in (0.0, 0.3, 3.0):
        values = (draws.normal(shift, 1, count)).tolist()
        assert paired_p_value(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=1e-12)


def test_tails_have_no_floor():
    values = [1.0 + 0.01 * (number % 7) for number in range(40)]
    assert 0 <= paired_p_value(values) < 1e-12


def test_two_strata_of_one_size_are_tested_as_welch_does():
    draws = np.random.default_rng(3)
    first, second = draws.normal(0.4, 1, 40), draws.normal(-0.1, 2, 40)
    strata = ["a"] * 40 + ["b"] * 40
    # The mean of two strata's means is 0 where one's is the other's negative.
    test = stats.ttest_ind(first, -second, equal_var=False)
    ours = paired_p_value([*first.tolist(), *second.tolist()], strata=strata)
    assert ours == pytest.approx(test.pvalue, abs=0.002), "degrees of freedom are rounded down"


def test_strata_weigh_alike():
    values, strata = [1.0, 1.2] + [-1.0, -1.2] * 100, ["few"] * 2 + ["many"] * 200
    assert paired_p_value(values, strata=strata) == pytest.approx(1.0)
    assert paired_p_value(values) < 0.01


def test_differences_without_spread_are_as_sure_as_flips_of_signs_can_tell():
    assert paired_p_value([0.1] * 5) == 2 / 2**5
    assert paired_p_value([0.0] * 20) == 1.0
    assert paired_p_value([None, 0.3, None]) is None
    assert paired_p_value([0.3, 0.4, 0.5], strata=["a", "a", "b"]) is None


@pytest.mark.parametrize("count", [5, 30])
def test_equal_models_are_told_apart_in_five_of_a_hundred_tests(count):
    draws = np.random.default_rng(7)
    rejected = sum(paired_p_value(draws.normal(0, 1, count).tolist()) < 0.05 for _ in range(2_000))
    assert stats.binomtest(rejected, 2_000, 0.05).pvalue > 0.001
