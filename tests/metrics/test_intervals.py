"""Intervals against scipy's, brute force, and what can be said without drawing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.metrics import (
    Interval,
    bootstrap_interval,
    mean_interval,
    pair_agreement,
    paired_differences,
    share_interval,
    t_interval,
    wilson_interval,
)
from rubricworks.metrics.intervals import t_quantile


def parts(interval):
    return interval.value, interval.low, interval.high


def brute_force(groups, mean, *, times=4_000):
    """Bounds of the mean of groups resampled whole, one Python loop for each resample."""
    generator = np.random.default_rng(5)
    means = [mean([groups[at] for at in generator.integers(0, len(groups), len(groups))]) for _ in range(times)]
    return np.quantile(means, [0.025, 0.975])


# The value


def test_json_has_counts_only_where_they_were_counted():
    assert Interval(value=0.5, low=0.25, high=1).model_dump_json() == '{"value":0.5,"low":0.25,"high":1.0}'
    assert Interval(value=0.5).model_dump() == {"value": 0.5, "low": None, "high": None}
    document = {"value": 0.5, "low": 0.0, "high": 1.0, "samples": 4, "missing": 0}
    assert Interval.model_validate(document).model_dump() == document


@pytest.mark.parametrize(
    "stored",
    [
        '{"value":0.7,"low":0.6,"high":0.8,"samples":120,"missing":3}',
        '{"value":0.7,"low":null,"high":null}',
        '{"value":-0.02,"low":-0.05,"high":0.01}',
    ],
)
def test_json_of_older_runs_reads_back_unchanged(stored):
    """A mean with its counts, an agreement over one response, and a difference, as runs of version 0.1 stored them."""
    assert Interval.model_validate_json(stored).model_dump_json() == stored


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"low": 0.1}, "both bounds or neither"), ({"high": 0.1}, "both bounds or neither"), ({"missing": 2}, "samples")],
)
def test_half_an_interval_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Interval(value=0.1, **fields)


def test_interval_lies_above_or_below_a_level_as_a_whole_or_not_at_all():
    some = Interval(value=0.2, low=0.1, high=0.3)
    assert [some.lies_above(level) for level in (0.05, 0.1, 0.2)] == [True, False, False]
    assert [some.lies_below(level) for level in (0.2, 0.3, 0.35)] == [False, False, True]
    assert some.lies_above(0.1, inclusive=True)
    assert some.lies_below(0.3, inclusive=True)
    assert not some.lies_above(0.11, inclusive=True)
    assert not some.lies_below(0.29, inclusive=True)
    without_bounds = Interval(value=0.2)
    assert not any(
        (without_bounds.lies_above(0), without_bounds.lies_below(1), without_bounds.lies_above(0.2, inclusive=True))
    )


def test_intervals_are_apart_if_no_point_is_in_both():
    low, middle, high = (Interval(value=level, low=level - 0.1, high=level + 0.1) for level in (0.25, 0.375, 0.5))
    assert low.is_apart_from(high)
    assert high.is_apart_from(low)
    assert not low.is_apart_from(middle)
    assert not middle.is_apart_from(high)
    assert not low.is_apart_from(Interval(value=9))
    assert not Interval(value=9).is_apart_from(low)


# Bootstrap


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_bootstrap_agrees_with_scipy(level):
    bootstrap = pytest.importorskip("scipy.stats").bootstrap
    values = np.random.default_rng(3).beta(2, 5, size=200)
    actual = bootstrap_interval(values, level=level, resamples=20_000)
    reference = bootstrap(
        (values,), np.mean, confidence_level=level, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    width = reference.high - reference.low
    assert actual.value == pytest.approx(values.mean())
    assert actual.low == pytest.approx(reference.low, abs=0.03 * width)
    assert actual.high == pytest.approx(reference.high, abs=0.03 * width)


def test_width_of_a_coin_is_the_normal_approximation():
    wins = [1.0] * 600 + [0.0] * 400
    interval = bootstrap_interval(wins, resamples=20_000)
    half = 1.96 * math.sqrt(0.6 * 0.4 / 1_000)
    assert interval.high - interval.value == pytest.approx(half, rel=0.05)
    assert interval.value - interval.low == pytest.approx(half, rel=0.05)


def test_covers_the_true_mean_about_as_often_as_it_says():
    generator = np.random.default_rng(0)
    held = 0
    for trial in range(200):
        interval = bootstrap_interval(generator.normal(1.0, 2.0, size=80), level=0.9, resamples=500, seed=trial)
        held += interval.low <= 1.0 <= interval.high
    assert 0.83 <= held / 200 <= 0.96


def test_missing_values_are_left_out():
    with_gaps = bootstrap_interval([1.0, None, 0.0, math.nan, 1.0, 0.0])
    assert with_gaps == bootstrap_interval([1.0, 0.0, 1.0, 0.0])
    assert with_gaps.value == 0.5
    clustered = bootstrap_interval([1.0, None, 0.0, math.nan, 1.0], clusters=["a", "z", "b", "z", "b"])
    assert clustered == bootstrap_interval([1.0, 0.0, 1.0], clusters=["a", "b", "b"])
    stratified = bootstrap_interval([1.0, None, 0.0, math.nan, 1.0], strata=["a", "z", "b", "z", "b"])
    assert stratified == bootstrap_interval([1.0, 0.0, 1.0], strata=["a", "b", "b"])


def test_equal_values_leave_no_doubt():
    assert parts(bootstrap_interval([0.25] * 7)) == (0.25, 0.25, 0.25)


def test_same_seed_same_interval_also_when_drawn_in_blocks():
    values = np.random.default_rng(1).random(30_000)
    first = bootstrap_interval(values, resamples=300, seed=5)
    assert first == bootstrap_interval(values, resamples=300, seed=5)
    assert first != bootstrap_interval(values, resamples=300, seed=6)
    assert first.high - first.low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(30_000), rel=0.2)


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_interval_lies_within_the_values(values):
    interval = bootstrap_interval(values, resamples=50)
    slack = 1e-6
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([], {}),
        ([None, math.nan], {}),
        ([1.0], {"level": 1.0}),
        ([1.0], {"resamples": 0}),
        ([1.0], {"clusters": []}),
        ([1.0], {"strata": ["a", "b"]}),
        ([1.0], {"clusters": ["a"], "strata": ["a"]}),
    ],
)
def test_nothing_to_average_or_senseless_options_are_refused(values, options):
    with pytest.raises(ValueError):
        bootstrap_interval(values, **options)


# Clusters and strata


def test_clusters_of_one_value_each_are_the_plain_bootstrap():
    values = np.random.default_rng(2).random(120).tolist()
    actual = bootstrap_interval(values, clusters=range(120))
    assert parts(actual) == pytest.approx(parts(bootstrap_interval(values)), abs=1e-12)


def test_clusters_are_drawn_whole():
    generator = np.random.default_rng(8)
    clusters = [generator.random(generator.integers(1, 9)).tolist() for _ in range(25)]
    actual = bootstrap_interval(
        [value for values in clusters for value in values],
        clusters=[number for number, values in enumerate(clusters) for _ in values],
        resamples=20_000,
    )
    low, high = brute_force(clusters, lambda sample: np.mean([value for values in sample for value in values]))
    assert actual.value == pytest.approx(np.mean([value for values in clusters for value in values]))
    assert (actual.low, actual.high) == pytest.approx((low, high), abs=0.06 * (high - low))


def test_width_is_that_of_the_raters_agreement_whose_accuracy_is_the_same_mean():
    generator = np.random.default_rng(4)
    clusters = generator.integers(0, 60, size=300).tolist()
    right = (generator.random(300) < 0.7).astype(float).tolist()
    reference = pair_agreement(right, [1.0] * 300, clusters, resamples=20_000).accuracy
    actual = bootstrap_interval(right, clusters=clusters, resamples=20_000)
    assert actual.value == pytest.approx(reference.value)
    assert (actual.low, actual.high) == pytest.approx((reference.low, reference.high), abs=0.003)


def test_values_that_go_together_leave_more_doubt_than_ones_that_do_not():
    values = [0.0, 1.0] * 30
    sorted_interval = bootstrap_interval(sorted(values), clusters=[number // 6 for number in range(60)])
    shuffled_interval = bootstrap_interval(values, clusters=range(60))
    assert sorted_interval.value == shuffled_interval.value == 0.5
    assert sorted_interval.high - sorted_interval.low > 1.5 * (shuffled_interval.high - shuffled_interval.low)


def test_one_cluster_has_no_bounds():
    assert bootstrap_interval([1.0, 0.0], clusters=["a", "a"]) == Interval(value=0.5)
    assert share_interval([1.0, 1.0], clusters=["a", "a"]) == Interval(value=1)


def test_strata_weigh_alike_and_are_resampled_within():
    generator = np.random.default_rng(9)
    strata = {"few": generator.random(6), "some": generator.random(20), "many": generator.random(300)}
    actual = bootstrap_interval(
        np.concatenate([*strata.values()]),
        strata=[name for name, values in strata.items() for _ in values],
        resamples=20_000,
    )
    draws = np.random.default_rng(1)
    means = [np.mean([draws.choice(values, values.size).mean() for values in strata.values()]) for _ in range(4_000)]
    low, high = np.quantile(means, [0.025, 0.975])
    assert actual.value == pytest.approx(np.mean([values.mean() for values in strata.values()]))
    assert (actual.low, actual.high) == pytest.approx((low, high), abs=0.06 * (high - low))


def test_stratum_without_spread_adds_none():
    mixed = [1.0, 0.0, 1.0, 1.0, 0.0]
    alone = bootstrap_interval(mixed)
    both = bootstrap_interval([*mixed, 0.5, 0.5], strata=[*"aaaaabb"])
    assert parts(both) == pytest.approx([(part + 0.5) / 2 for part in parts(alone)])


# Shares


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (0, 60), (3, 10), (7, 7), (1, 1), (480, 1_000)])
def test_wilson_is_scipys(successes, trials, level):
    binomtest = pytest.importorskip("scipy.stats").binomtest
    reference = binomtest(successes, trials).proportion_ci(level, method="wilson")
    actual = wilson_interval(successes, trials, level)
    assert parts(actual) == pytest.approx((successes / trials, reference.low, reference.high), abs=1e-12)


def test_wilson_by_hand():
    # At 0 of n the upper bound is z² / (n + z²), with z = 1.959964; none lies outside [0, 1].
    assert parts(wilson_interval(0, 60)) == (0, 0, pytest.approx(3.841459 / 63.841459, abs=1e-7))
    assert parts(wilson_interval(60, 60)) == (1, pytest.approx(60 / 63.841459, abs=1e-7), 1)


@pytest.mark.parametrize(("successes", "trials", "level"), [(0, 0, 0.95), (-1, 3, 0.95), (4, 3, 0.95), (1, 3, 1.0)])
def test_senseless_numbers_of_successes_are_refused(successes, trials, level):
    with pytest.raises(ValueError):
        wilson_interval(successes, trials, level)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_share_of_none_or_all_has_wilsons_bounds(value):
    assert share_interval([value] * 12 + [None]) == wilson_interval(12 * value, 12)
    assert share_interval([value], level=0.9) == wilson_interval(value, 1, 0.9)


def test_any_other_share_has_the_bootstraps_bounds():
    for values in ([0.0] * 9 + [1.0], [0.5] * 6, [0.2, 0.9]):
        assert share_interval(values, seed=3) == bootstrap_interval(values, seed=3)


def test_share_of_none_counts_clusters_not_values():
    assert share_interval([0.0] * 40, clusters=[number // 4 for number in range(40)]) == wilson_interval(0, 10)


def test_share_over_strata_has_the_trials_of_its_variance():
    # The variance of a mean of means is p (1 - p) (1/5 + 1/20 + 1/20) / 9, that of 30 values p (1 - p) / 30.
    actual = share_interval([1.0] * 45, strata=["a"] * 5 + ["b"] * 20 + ["c"] * 20)
    assert parts(actual) == pytest.approx(parts(wilson_interval(30, 30)))
    assert share_interval([0.0, 0.0, None], strata=[*"aab"]) == wilson_interval(0, 2)


# Means and differences


def test_mean_counts_what_was_judged_and_what_was_not():
    values = [0.25, None, 0.75, math.nan, 0.5]
    mean = mean_interval(values)
    assert (mean.samples, mean.missing) == (3, 2)
    assert parts(mean) == parts(bootstrap_interval([0.25, 0.75, 0.5]))
    assert mean_interval([None, math.nan]) is None
    assert mean_interval([]) is None
    clustered = mean_interval(iter([0.0, 1.0, None, 1.0]), clusters=[*"aabb"])
    assert clustered.samples == 3
    assert parts(clustered) == parts(bootstrap_interval([0.0, 1.0, 1.0], clusters=[*"aab"]))


def test_mean_of_shares_is_a_share_and_of_differences_is_not():
    assert parts(mean_interval([1.0] * 8)) == parts(wilson_interval(8, 8))
    assert parts(mean_interval([0.0] * 8, share=False)) == (0, 0, 0)


def test_differences_are_paired_by_key_in_the_order_of_the_first():
    values, others = {"c": 1.0, "a": 0.5, "b": None, "d": 1.0}, {"a": 0.75, "b": 0.5, "c": 0.0, "e": 1.0}
    assert [*paired_differences(values, others).items()] == [("c", 1.0), ("a", -0.25), ("b", None)]
    assert paired_differences(others, values) == {"a": 0.25, "b": None, "c": -1.0}


def test_paired_differences_leave_less_doubt_than_the_means():
    generator = np.random.default_rng(6)
    hard = generator.random(80)
    base = dict(enumerate((0.5 * hard).tolist()))
    policy = dict(enumerate((0.5 * hard + generator.normal(0.05, 0.02, 80)).tolist()))
    gain, before, after = (
        mean_interval(values.values(), share=False) for values in (paired_differences(policy, base), base, policy)
    )
    assert gain.lies_above(0)
    assert not after.is_apart_from(before)
    assert gain.value == pytest.approx(after.value - before.value)


# Seeds


@given(st.integers(1, 60), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_quantiles_are_those_of_students_distribution(freedom, level):
    stats = pytest.importorskip("scipy.stats")
    assert t_quantile(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=9))
def test_interval_over_seeds_is_scipys(values):
    stats = pytest.importorskip("scipy.stats")
    actual, error = t_interval(values), stats.sem(values)
    if error == 0 or math.isnan(error):
        assert actual.bounds == pytest.approx((values[0], values[0]))
    else:
        mean = sum(values) / len(values)
        assert actual.value == pytest.approx(mean, abs=1e-12)
        assert actual.bounds == pytest.approx(stats.t.interval(0.95, len(values) - 1, mean, error), abs=1e-9)


def test_interval_over_seeds_by_hand():
    # Mean 2, deviation 1, three values: 2 -+ 4.302653 / sqrt(3).
    assert parts(t_interval([1.0, 2.0, 3.0])) == pytest.approx((2, -0.484138, 4.484138), abs=1e-6)
    assert parts(t_interval([0.1, 0.1, 0.1])) == (0.1, 0.1, 0.1)
    assert t_interval([0.1]) == Interval(value=0.1)
    with pytest.raises(ValueError):
        t_interval([])


def test_a_single_value_has_no_bounds():
    assert bootstrap_interval([0.3]) == Interval(value=0.3)
    assert mean_interval([0.3, None]) == Interval(value=0.3, samples=1, missing=1)
