"""Flips and drift of a judge, by hand and by the rates that draws are made with."""

import random

import pytest

from rubricworks.metrics import drift, flip_rate


def test_the_flip_rate_is_the_share_of_pairs_of_draws_that_differ():
    # 1 of 3 pairs equal, all equal, one pair that differs; an item with one draw says nothing.
    rate = flip_rate([(1, 1, 0), (0, 0, 0), (1, 0), (1,)])
    assert rate.value == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert flip_rate([(1,), ()]) is None


def test_one_slip_in_ten_flips_eighteen_of_a_hundred_pairs():
    generator = random.Random(1)
    draws = [[float(generator.random() < 0.1) for _ in range(4)] for _ in range(3_000)]
    rate = flip_rate(draws, [at // 6 for at in range(3_000)])
    assert rate.low <= 2 * 0.1 * 0.9 <= rate.high
    assert rate.high - rate.low < 0.03


def test_drift_is_the_change_of_the_same_verdicts():
    start, now = [1, 1, 0, 0, 1, 0], [1, 0, 0, 0, 0, 1]
    change = drift(start, now, "aabbcc")
    assert change.changed.value == pytest.approx(3 / 6)
    assert change.difference.value == pytest.approx(-1 / 6)
    still = drift(start, start, "aabbcc")
    assert (still.changed.value, still.difference.value) == (0, 0)
    assert still.changed.high > 0.3  # Wilson's of no change in three responses, not certainty


def test_an_interval_of_drift_covers_what_the_judges_rates_make_of_it():
    generator, covered = random.Random(3), 0
    for _ in range(200):
        start = [float(generator.random() < 0.6) for _ in range(200)]
        now = [float(generator.random() < 0.5) for _ in range(200)]
        difference = drift(start, now, [at // 4 for at in range(200)]).difference
        covered += difference.low <= -0.1 <= difference.high
    assert covered >= 0.9 * 200
