"""Agreement against published examples, its definitions written out slowly, and scikit-learn's kappa."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.metrics import (
    accuracy,
    alpha_estimate,
    bootstrap_interval,
    cohen_kappa,
    confusion,
    krippendorff_alpha,
    pair_agreement,
)

_ = None
FOUR_OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
    [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
]
"""Krippendorff (2011), example C: twelve units, of which the last was rated once."""


def table(both: int, first_only: int, second_only: int, neither: int) -> tuple[list[float], list[float]]:
    """The ratings of a 2x2 table."""
    first = [1.0] * (both + first_only) + [0.0] * (second_only + neither)
    second = [1.0] * both + [0.0] * first_only + [1.0] * second_only + [0.0] * neither
    return first, second


def slow_alpha(ratings: list[list[float | None]], level: str) -> float | None:
    """The coincidence matrix of Krippendorff (2011), cell by cell."""
    coincidences: Counter[tuple[float, float]] = Counter()
    for unit in zip(*ratings, strict=True):
        values = [rating for rating in unit if rating is not None]
        for a, b in itertools.permutations(values, 2):
            coincidences[a, b] += 1 / (len(values) - 1)
    n_c: Counter[float] = Counter()
    for (a, _b), count in coincidences.items():
        n_c[a] += count

    def distance(a: float, b: float) -> float:
        return float(a != b) if level == "nominal" else (a - b) ** 2

    n = sum(n_c.values())
    observed = sum(count * distance(a, b) for (a, b), count in coincidences.items())
    expected = sum(n_c[a] * n_c[b] * distance(a, b) for a in n_c for b in n_c)
    return None if expected == 0 else 1 - (n - 1) * observed / expected


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("interval", 0.849)])
def test_alpha_of_krippendorffs_four_observers(level, alpha):
    assert krippendorff_alpha(FOUR_OBSERVERS, level=level) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize(
    ("first", "second", "alpha"),
    [("0100000010", "1110010000", 0.095), ("112243335441", "212223335444", 0.692)],
)
def test_alpha_of_krippendorffs_two_observers(first, second, alpha):
    ratings = [[float(rating) for rating in rater] for rater in (first, second)]
    assert krippendorff_alpha(ratings) == pytest.approx(alpha, abs=5e-4)


@pytest.mark.parametrize(
    ("counts", "kappa"), [((20, 5, 10, 15), 0.4), ((45, 15, 25, 15), 0.1304), ((25, 35, 5, 35), 0.2593)]
)
def test_kappa_of_textbook_tables(counts, kappa):
    first, second = table(*counts)
    assert cohen_kappa(first, second) == pytest.approx(kappa, abs=5e-5)
    assert accuracy(first, second) == (counts[0] + counts[3]) / sum(counts)


def test_kappa_of_three_credits_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = np.random.default_rng(5)
    first = generator.integers(0, 3, size=200)
    second = np.where(generator.random(200) < 0.6, first, generator.integers(0, 3, size=200))
    reference = metrics.cohen_kappa_score(first, second)
    assert cohen_kappa(list(first / 2), list(second / 2)) == pytest.approx(reference)


rating = st.sampled_from([None, 0.0, 0.1, 0.5, 1.0])
three_raters = st.integers(1, 8).flatmap(
    lambda units: st.lists(st.lists(rating, min_size=units, max_size=units), min_size=2, max_size=4)
)


@settings(max_examples=200)
@given(three_raters, st.sampled_from(["nominal", "interval"]))
def test_alpha_is_the_coincidence_matrix_written_out(ratings, level):
    actual, slow = krippendorff_alpha(ratings, level=level), slow_alpha(ratings, level)
    assert actual == (None if slow is None else pytest.approx(slow, abs=1e-9))


def test_between_zeros_and_ones_both_levels_of_alpha_are_the_same():
    ratings = table(20, 5, 10, 15)
    assert krippendorff_alpha(ratings) == pytest.approx(krippendorff_alpha(ratings, level="interval"))


def test_half_a_credit_off_counts_less_at_interval_level():
    first, near, far = [0.0, 1.0, 0.0, 1.0], [0.5, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0]
    assert krippendorff_alpha([first, near], level="interval") > krippendorff_alpha([first, far], level="interval")


@pytest.mark.parametrize("number", [accuracy, cohen_kappa, lambda a, b: krippendorff_alpha([a, b])])
def test_without_a_unit_that_both_rated_nothing_is_defined(number):
    assert number([], []) is None
    assert number([1.0, None, math.nan], [None, 0.0, 1.0]) is None


@pytest.mark.parametrize("credit", [0.0, 0.1, 1.0])
def test_constant_credit_is_accurate_but_says_nothing_beyond_chance(credit):
    always = [credit] * 7
    assert accuracy(always, always) == 1
    assert cohen_kappa(always, always) is None
    assert krippendorff_alpha([always, always]) is None
    assert krippendorff_alpha([always, always], level="interval") is None


def test_a_rater_who_always_says_yes_has_no_kappa_beyond_chance():
    assert cohen_kappa([1.0] * 4, [1.0, 1.0, 0.0, 1.0]) == 0


def test_confusion_counts_pairs_and_leaves_out_what_one_did_not_rate():
    assert confusion([0, 0.5, 1, 1, None, 1], [0, 1, 1, 1, 1, None]) == {(0, 0): 1, (0.5, 1): 1, (1, 1): 2}


def resampled(first, second, responses, number, times=3_000):
    """The percentile bootstrap, one response after the other."""
    generator = np.random.default_rng(99)
    units = {name: [i for i, other in enumerate(responses) if other == name] for name in dict.fromkeys(responses)}
    values = []
    for _time in range(times):
        draws = generator.choice(len(units), size=len(units))
        indices = [i for name in draws for i in list(units.values())[name]]
        values.append(number([first[i] for i in indices], [second[i] for i in indices]))
    return np.quantile([value for value in values if value is not None], [0.025, 0.975])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("accuracy", accuracy),
        ("kappa", cohen_kappa),
        ("alpha_nominal", lambda a, b: slow_alpha([a, b], "nominal")),
        ("alpha_interval", lambda a, b: slow_alpha([a, b], "interval")),
    ],
)
def test_intervals_are_those_of_drawing_responses_one_by_one(name, number):
    generator = np.random.default_rng(2)
    responses = [number for number in range(25) for _unit in range(generator.integers(1, 5))]
    first = [float(generator.choice([0, 0.5, 1])) for _unit in responses]
    second = [a if generator.random() < 0.7 else float(generator.choice([0, 0.5, 1])) for a in first]
    estimate = getattr(pair_agreement(first, second, responses, resamples=8_000), name)
    low, high = resampled(first, second, responses, number)
    assert estimate.value == pytest.approx(number(first, second))
    assert estimate.low == pytest.approx(low, abs=0.05 * (high - low) + 1e-9)
    assert estimate.high == pytest.approx(high, abs=0.05 * (high - low) + 1e-9)


def test_criteria_that_err_together_count_as_one_response():
    """Ten equal verdicts on each of 100 responses are as sure as 100 verdicts, not as 1,000."""
    equal = [1.0] * 80 + [0.0] * 20
    first, second = [1.0] * 1_000, [value for value in equal for _criterion in range(10)]
    estimate = pair_agreement(first, second, [unit // 10 for unit in range(1_000)], resamples=8_000).accuracy
    single = bootstrap_interval(equal, resamples=8_000)
    assert estimate.value == pytest.approx(0.8)
    assert estimate.low == pytest.approx(single.low, abs=0.011)
    assert estimate.high == pytest.approx(single.high, abs=0.011)


def test_alpha_of_many_raters_has_an_interval_too():
    estimate = alpha_estimate(FOUR_OBSERVERS, range(12), scale="interval")
    assert estimate.value == pytest.approx(0.849, abs=5e-4)
    assert estimate.low < estimate.value < estimate.high <= 1


def test_same_seed_same_interval():
    first, second = table(20, 5, 10, 15)
    responses = [unit // 5 for unit in range(50)]
    assert pair_agreement(first, second, responses, seed=1) == pair_agreement(first, second, responses, seed=1)
    assert pair_agreement(first, second, responses, seed=1) != pair_agreement(first, second, responses, seed=2)


def test_every_verdict_may_have_a_credit_of_its_own():
    credits = list(np.random.default_rng(0).random(3_000))
    result = pair_agreement(credits, credits, range(3_000), resamples=20)
    assert result.kappa.low == result.alpha_interval.high == pytest.approx(1)


def test_one_response_alone_gives_numbers_without_bounds():
    result = pair_agreement([1.0, 0.0, 1.0], [1.0, 0.0, 0.0], ["r"] * 3)
    assert (result.units, result.responses) == (3, 1)
    assert (result.accuracy.value, result.accuracy.low, result.accuracy.high) == (pytest.approx(2 / 3), None, None)


def test_bounds_are_left_out_where_many_resamples_hold_one_credit_only():
    rare = [1.0] * 19 + [0.0]
    result = pair_agreement(rare, rare, range(20))
    assert (result.kappa.value, result.kappa.low) == (1, None)  # 0.95 ** 20 = 36 % of the resamples lack the zero


def test_raters_who_always_agree_have_wilsons_bounds_over_the_responses():
    binomtest = pytest.importorskip("scipy.stats").binomtest
    credits = [float(unit % 2) for unit in range(60)]
    result = pair_agreement(credits, credits, [unit // 3 for unit in range(60)]).accuracy
    wilson = binomtest(20, 20).proportion_ci(method="wilson")
    assert (result.value, result.low, result.high) == pytest.approx((1, wilson.low, 1))
    opposed = pair_agreement(credits, [1 - credit for credit in credits], range(60), level=0.9).accuracy
    wilson = binomtest(0, 60).proportion_ci(0.9, method="wilson")
    assert (opposed.value, opposed.low, opposed.high) == pytest.approx((0, 0, wilson.high))


@pytest.mark.parametrize(
    "call",
    [
        lambda: accuracy([1.0], [1.0, 0.0]),
        lambda: krippendorff_alpha([[1.0]]),
        lambda: confusion([1.0], []),
        lambda: pair_agreement([1.0], [1.0], []),
        lambda: pair_agreement([1.0], [1.0], ["r"], level=1.0),
        lambda: pair_agreement([1.0], [1.0], ["r"], resamples=0),
    ],
)
def test_ratings_that_do_not_stand_side_by_side_are_refused(call):
    with pytest.raises(ValueError):
        call()
