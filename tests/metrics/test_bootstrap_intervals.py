"""Bootstrap intervals against scipy's, and against what can be said without drawing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.metrics import bootstrap_interval


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_agrees_with_scipy(level):
    bootstrap = pytest.importorskip("scipy.stats").bootstrap
    values = np.random.default_rng(3).beta(2, 5, size=200)
    ours = bootstrap_interval(values, level=level, resamples=20_000)
    theirs = bootstrap(
        (values,), np.mean, confidence_level=level, n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.value == pytest.approx(values.mean())
    assert ours.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.03 * width)


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


def test_equal_values_leave_no_doubt():
    interval = bootstrap_interval([0.25] * 7)
    assert (interval.low, interval.value, interval.high) == (0.25, 0.25, 0.25)


def test_same_seed_same_interval_also_when_drawn_in_blocks():
    values = np.random.default_rng(1).random(30_000)
    first = bootstrap_interval(values, resamples=300, seed=5)
    assert first == bootstrap_interval(values, resamples=300, seed=5)
    assert first != bootstrap_interval(values, resamples=300, seed=6)
    assert first.high - first.low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(30_000), rel=0.2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_interval_lies_within_the_values(values):
    interval = bootstrap_interval(values, resamples=50)
    slack = 1e-6
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack


@pytest.mark.parametrize(
    ("values", "options"), [([], {}), ([None, math.nan], {}), ([1.0], {"level": 1.0}), ([1.0], {"resamples": 0})]
)
def test_nothing_to_average_or_a_senseless_level_is_refused(values, options):
    with pytest.raises(ValueError):
        bootstrap_interval(values, **options)
