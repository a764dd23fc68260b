"""The bootstrap of a mean over clusters, against the plain one and the agreement of raters."""

import numpy as np
import pytest

from rubricworks.metrics import bootstrap_interval, clustered_interval, pair_agreement


def test_with_one_value_each_it_is_the_plain_bootstrap():
    values = np.random.default_rng(2).random(120).tolist()
    plain, ours = bootstrap_interval(values), clustered_interval(values, range(120))
    assert (ours.value, ours.low, ours.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-12)


def test_width_is_that_of_the_raters_agreement_whose_accuracy_is_the_same_mean():
    generator = np.random.default_rng(4)
    clusters = generator.integers(0, 60, size=300).tolist()
    right = (generator.random(300) < 0.7).astype(float).tolist()
    theirs = pair_agreement(right, [1.0] * 300, clusters, resamples=20_000).accuracy
    ours = clustered_interval(right, clusters, resamples=20_000)
    assert ours.value == pytest.approx(theirs.value)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.003)


def test_values_that_go_together_leave_more_doubt_than_ones_that_do_not():
    values = [0.0, 1.0] * 30
    together, apart = (
        clustered_interval(sorted(values), [n // 6 for n in range(60)]),
        clustered_interval(values, range(60)),
    )
    assert together.value == apart.value == 0.5
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_one_cluster_has_no_bounds_and_nothing_no_value():
    assert clustered_interval([1.0, 0.0], ["a", "a"]).model_dump() == {"value": 0.5, "low": None, "high": None}
    with pytest.raises(ValueError, match="give one cluster for each"):
        clustered_interval([], [])
    with pytest.raises(ValueError, match="give one cluster for each"):
        clustered_interval([1.0], [])
