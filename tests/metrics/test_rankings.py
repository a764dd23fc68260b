"""Rank correlations against scipy on any numbers, and a metric's ranking of models with its interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rubricworks.metrics import kendall_tau_b, ranking_agreement, spearman

few = st.lists(st.tuples(st.integers(0, 4), st.floats(-5, 5, width=16)), min_size=2, max_size=12)


def expected(value: float) -> float | None:
    return None if math.isnan(value) else pytest.approx(value, abs=1e-9)


@given(few)
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_correlations_are_scipys_and_none_where_scipy_has_nan(pairs):
    a, b = zip(*pairs, strict=True)
    assert spearman(a, b) == expected(stats.spearmanr(a, b).statistic)
    assert kendall_tau_b(a, b) == expected(stats.kendalltau(a, b).statistic)


@pytest.mark.parametrize("correlation", [spearman, kendall_tau_b])
@pytest.mark.parametrize(
    ("a", "b"), [([1.0], [2.0]), ([], []), ([1.0, 2.0], [1.0]), ([1.0, math.nan], [1.0, 2.0]), ([1, math.inf], [1, 2])]
)
def test_what_cannot_be_ranked_is_refused(correlation, a, b):
    with pytest.raises(ValueError, match=r"as many of one|not finite"):
        correlation(a, b)


def scores(means: dict[str, float], spread: float, samples: int) -> dict[str, list[float | None]]:
    generator = np.random.default_rng(3)
    return {model: list(mean + spread * generator.standard_normal(samples)) for model, mean in means.items()}


MEANS = {"a": 0.9, "b": 0.7, "c": 0.5, "d": 0.3, "e": 0.1}
ELO = {"e": 900.0, "d": 1000.0, "c": 1010.0, "b": 1100.0, "a": 1300.0}


def test_agreement_is_spearman_of_the_mean_scores_with_the_ranking():
    result = ranking_agreement(scores(MEANS, 0.001, 20), ELO)
    assert (result.value, result.low, result.high) == pytest.approx((1, 1, 1))
    swapped = ELO | {"a": 1100.0, "b": 1300.0}
    assert ranking_agreement(scores(MEANS, 0.001, 20), swapped).value == pytest.approx(0.9)  # 1 - 6 * 2 / (5 * 24)
    upside_down = {model: -elo for model, elo in ELO.items()}
    assert ranking_agreement(scores(MEANS, 0.001, 20), upside_down).value == pytest.approx(-1)


@pytest.mark.slow
def test_interval_is_that_of_resampling_whole_samples():
    of = scores(MEANS, 1.5, 40)
    result = ranking_agreement(of, ELO, resamples=4000, seed=1)
    table = np.array([of[model] for model in ELO])
    generator = np.random.default_rng(99)
    draws = [
        stats.spearmanr(table[:, generator.integers(0, 40, 40)].mean(axis=1), list(ELO.values())).statistic
        for _ in range(4000)
    ]
    # Correlations of five models come in steps of 0.1; the percentiles of two draws may lie a step apart.
    assert (result.low, result.high) == pytest.approx(tuple(np.quantile(draws, [0.025, 0.975])), abs=0.11)
    assert result.low < result.value <= result.high
    assert result == ranking_agreement(of, ELO, resamples=4000, seed=1)


def test_sample_that_a_judge_failed_on_leaves_that_models_mean_alone():
    of = {"a": [1.0, None, 1.0], "b": [0.5, 0.9, math.nan], "c": [0.0, 0.1, 0.2]}
    assert ranking_agreement(of, {"a": 3, "b": 2, "c": 1}).value == pytest.approx(1)
    # With the gap as 0, a's mean would be 0.67, below b's.
    assert ranking_agreement(of | {"b": [0.7, 0.7, 0.7]}, {"a": 3, "b": 2, "c": 1}).value == pytest.approx(1)


def test_models_with_the_same_mean_are_tied_whatever_rounding_does():
    of = {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.1, 0.2], "c": [0.9, 0.9, 0.9]}
    assert ranking_agreement(of, {"a": 1, "b": 2, "c": 3}).value == pytest.approx(
        stats.spearmanr([1.5, 1.5, 3], [1, 2, 3]).statistic
    )


def test_without_any_order_there_is_no_correlation():
    assert ranking_agreement({"a": [1.0, 2.0], "b": [2.0, 1.0]}, {"a": 1, "b": 2}) is None
    assert ranking_agreement({"a": [1.0, 2.0], "b": [2.0, 3.0]}, {"a": 1, "b": 1}) is None


def test_bounds_are_left_out_where_resampling_leaves_too_much_undefined():
    result = ranking_agreement({"a": [1.0, 1.0, 2.0], "b": [1.0, 1.0, 1.0]}, {"a": 2, "b": 1})
    assert result.value == pytest.approx(1)
    assert result.low is result.high is None  # 8 of 27 resamples miss the sample that tells them apart


@pytest.mark.parametrize(
    ("of", "ranking", "says"),
    [
        ({"a": [1.0]}, {"a": 1}, "two or more models"),
        ({"a": [1.0], "b": [1.0]}, {"a": 1, "c": 2}, "two or more models in both"),
        ({"a": [1.0], "b": [1.0, 2.0]}, {"a": 1, "b": 2}, "for each sample"),
        ({"a": [1.0], "b": [None]}, {"a": 1, "b": 2}, "no score of 'b'"),
        ({"a": [1.0], "b": [2.0]}, {"a": 1, "b": None}, "not finite"),
        ({"a": [1.0], "b": [2.0]}, {"a": 1, "b": math.nan}, "not finite"),
        ({"a": [1.0], "b": [math.inf]}, {"a": 1, "b": 2}, "not finite"),
    ],
)
def test_unfit_scores_are_refused(of, ranking, says):
    with pytest.raises(ValueError, match=says):
        ranking_agreement(of, ranking)
