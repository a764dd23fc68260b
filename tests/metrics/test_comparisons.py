"""p-values of paired differences, and their correction for the number of comparisons."""

import itertools

import numpy as np
import pytest

from rubricworks.metrics import bootstrap_p_value, holm


def test_holm_corrects_as_in_a_worked_example():
    corrected = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    # 4 * 0.005, 3 * 0.01, 2 * 0.03, and 1 * 0.04 raised to the one before it.
    assert corrected == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})
    assert holm({}) == {}
    assert holm({"a": 0.7, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def test_p_value_is_the_share_of_all_resamples_beyond_zero():
    values = [0.5, -0.2, 0.4, 0.1]
    means = [np.mean(draw) for draw in itertools.product(values, repeat=4)]
    exact = 2 * min(sum(mean <= 1e-12 for mean in means), sum(mean >= -1e-12 for mean in means)) / len(means)
    assert bootstrap_p_value(values, resamples=40_000) == pytest.approx(exact, abs=0.01)


def test_differences_that_all_agree_are_as_sure_as_the_resamples_can_tell():
    assert bootstrap_p_value([0.1] * 20, resamples=999) == pytest.approx(2 / 1000)
    assert bootstrap_p_value([0.0] * 20) == 1.0
    assert bootstrap_p_value([None, 0.3, None]) is None


def test_strata_weigh_alike():
    values, strata = [1.0] * 2 + [-1.0] * 200, ["few"] * 2 + ["many"] * 200
    assert bootstrap_p_value(values, strata=strata) == 1.0
    assert bootstrap_p_value(values) < 0.01
