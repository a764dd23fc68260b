"""Prediction-powered estimates against ppi_py, closed forms, the t interval, and simulated coverage."""

import math

import numpy as np
import pytest

from rubricworks.metrics import error_rates, prediction_powered_mean, t_interval

LABELS = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1]
JUDGED = [1, 0, 1, 0, 0, 1, 1, 0, 1, 1]
OTHERS = [1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1]


def test_without_other_items_the_labels_stand_alone():
    mean = prediction_powered_mean(LABELS, JUDGED)
    expected = t_interval(LABELS)
    assert (mean.value, mean.low, mean.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_with_full_power_the_judges_mean_is_moved_by_its_error_on_the_labels():
    mean = prediction_powered_mean(LABELS, JUDGED, OTHERS, power=1.0)
    assert mean.value == pytest.approx(np.mean(OTHERS) + np.mean(LABELS) - np.mean(JUDGED))
    errors, others = np.subtract(LABELS, JUDGED), np.array(OTHERS)
    deviation = math.sqrt(errors.var(ddof=1) / 10 + others.var(ddof=1) / 20)
    assert (mean.high - mean.low) / 2 == pytest.approx(2.2621572 * deviation)  # t of 9 degrees of freedom


def test_the_tuned_power_has_the_least_variance_of_its_closed_form():
    generator = np.random.default_rng(3)
    truth = generator.random(4_000) < 0.4
    judged = np.where(generator.random(4_000) < 0.1, ~truth, truth)
    labels, on_labels, others = truth[:400], judged[:400], judged[400:]
    tuned = prediction_powered_mean(labels, on_labels, others)
    correlation = np.corrcoef(labels, on_labels)[0, 1]
    # PPI++, equation 7 and example 6.1: var(Y)/n (1 - rho^2 N / (n + N)).
    variance = np.var(labels, ddof=1) / 400 * (1 - correlation**2 * 3_600 / 4_000)
    assert (tuned.high - tuned.low) / 2 == pytest.approx(1.966 * math.sqrt(variance), rel=0.02)
    for power in (0.0, 0.3, 1.0):
        other = prediction_powered_mean(labels, on_labels, others, power=power)
        assert tuned.high - tuned.low <= (other.high - other.low) * 1.005


PPI_PY = [
    # labels, others, errors of 97, power (None: tuned), and ppi_py's estimate and bounds
    (200, 1_800, 10, None, 0.40785666978046703, 0.36181390268677166, 0.4538994368741624),
    (200, 1_800, 10, 1.0, 0.40055555555555555, 0.3494863346092779, 0.4516247765018332),
    (200, 1_800, 10, 0.5, 0.4127777777777778, 0.3645610628042432, 0.4609944927513124),
    (200, 1_800, 10, 0.0, 0.425, 0.3564888148071015, 0.4935111851928985),
    (500, 1_000, 25, None, 0.42662796304392514, 0.3866814950684117, 0.4665744310194386),
    (500, 1_000, 25, 1.0, 0.42800000000000005, 0.37375068940493705, 0.48224931059506304),
    (300, 9_000, 3, None, 0.43644214554327854, 0.4140594895994273, 0.4588248014871298),
    (300, 9_000, 3, 0.5, 0.4321111111111111, 0.4000852184368049, 0.46413700378541733),
]
"""`ppi_mean_pointestimate` and `ppi_mean_ci` of ppi-python 0.2.3, the authors' own package, at alpha 0.05."""


@pytest.mark.parametrize(("labelled", "unlabelled", "errors", "power", "estimate", "low", "high"), PPI_PY)
def test_estimates_and_bounds_are_those_of_the_authors_package(
    labelled, unlabelled, errors, power, estimate, low, high
):
    number = np.arange(labelled + unlabelled)
    truth = (number * 7919 % 101 < 43).astype(float)
    judged = np.where(number * 104729 % 97 < errors, 1 - truth, truth)
    mean = prediction_powered_mean(truth[:labelled], judged[:labelled], judged[labelled:], power=power)
    assert mean.value == pytest.approx(estimate, abs=1e-4)  # its tuned power divides by n, not n - 1
    # It takes the normal's quantile and variances over n; ours are Student's, over n - 1.
    student = {200: 1.971957, 300: 1.967930, 500: 1.964729}[labelled]
    assert (mean.high - mean.low) * 1.959964 / student == pytest.approx(high - low, rel=1 / labelled)


@pytest.mark.slow
@pytest.mark.parametrize("false_positive", [0.05, 0.3])
def test_intervals_cover_the_truth_and_are_narrower_than_labels_alone(false_positive):
    generator = np.random.default_rng(7)
    pass_rate, false_negative, trials = 0.45, 0.1, 600
    covered, widths = np.zeros(3), np.zeros((2, 2))
    for _ in range(trials):
        truth = generator.random(1_500) < pass_rate
        judged = np.where(truth, generator.random(1_500) >= false_negative, generator.random(1_500) < false_positive)
        split = [array.astype(float).tolist() for array in (truth[:150], judged[:150], judged[150:])]
        rates, alone = error_rates(*split), error_rates(*split[:2])
        expected = (false_positive, false_negative, pass_rate)
        covered += [rate.low <= value <= rate.high for rate, value in zip(rates, expected, strict=True)]
        widths += [
            [
                intervals.false_positive.high - intervals.false_positive.low,
                intervals.pass_rate.high - intervals.pass_rate.low,
            ]
            for intervals in (rates, alone)
        ]
    # 95 % of 600: three standard deviations are 2.7 points. Rare events are skewed, so their lower limit is lower.
    assert covered[2] / trials == pytest.approx(0.95, abs=0.027)
    assert covered[0] / trials >= 0.95 - (0.027 if false_positive > 0.1 else 0.06)
    assert covered[1] / trials >= 0.95 - 0.06
    assert widths[0, 1] < 0.85 * widths[1, 1]
    assert widths[0, 0] <= widths[1, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("responses", "criteria", "labelled"), [(100, 10, 0.3), (60, 8, 0.5), (40, 12, 0.2)])
def test_intervals_cover_where_items_of_any_response_are_labelled(responses, criteria, labelled):
    """Truth and errors go together within a response, and people label a random draw of its items."""
    generator = np.random.default_rng(11)
    trials, names = 1_000, np.repeat(np.arange(responses), criteria)
    covered = {"false positive": 0, "false negative": 0, "pass rate": 0, "mean, full power": 0}
    for _ in range(trials):
        truth = generator.random(len(names)) < generator.beta(0.5, 0.5, responses)[names]
        wrong = generator.random(len(names)) < generator.beta(0.6, 3.4, responses)[names]
        drawn = generator.random(len(names)) < labelled
        labels, judged = truth.astype(float), (truth ^ wrong).astype(float)
        items = (labels[drawn].tolist(), judged[drawn].tolist(), judged[~drawn].tolist())
        clusters = {"clusters": names[drawn].tolist(), "other_clusters": names[~drawn].tolist()}
        intervals = [*error_rates(*items, **clusters), prediction_powered_mean(*items, **clusters, power=1.0)]
        for name, interval, expected in zip(covered, intervals, (0.15, 0.15, 0.5, 0.5), strict=True):
            covered[name] += interval.low <= expected <= interval.high
    shares = {name: count / trials for name, count in covered.items()}
    # Three standard deviations of 1,000 trials are 2.1 points.
    assert all(0.93 <= share <= 0.97 for share in shares.values()), shares


def test_items_of_one_response_are_no_independent_evidence():
    generator = np.random.default_rng(5)
    covered = {"clustered": 0, "not": 0}
    for _ in range(300):
        truth = np.repeat(generator.random(60) < 0.5, 6).astype(float).tolist()
        responses = np.repeat(np.arange(60), 6).tolist()
        for name, clusters in (("clustered", responses), ("not", None)):
            mean = prediction_powered_mean(truth, truth, clusters=clusters)
            covered[name] += mean.low <= 0.5 <= mean.high
    assert covered["clustered"] >= 0.91 * 300
    assert covered["not"] < 0.75 * 300


def test_rates_by_hand_and_without_a_label_of_the_kind():
    rates = error_rates(LABELS, JUDGED)
    assert rates.false_positive.value == pytest.approx(1 / 4)
    assert rates.false_negative.value == pytest.approx(1 / 6)
    assert rates.pass_rate.value == pytest.approx(0.6)
    assert error_rates([1, 1], [1, 0], [1, 1]).false_positive is None
    perfect = error_rates([1, 0, 1, 0], [1, 0, 1, 0]).false_positive
    assert (perfect.value, perfect.low) == (0, 0)
    assert perfect.high > 0.5  # Wilson's of no error in two, not 0


def wilson(share, trials, z=1.959964):
    """Wilson (1927), as Brown, Cai and DasGupta (2001) write it."""
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    reach = z / (1 + z**2 / trials) * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2))
    return centre - reach, centre + reach


@pytest.mark.parametrize(
    ("labels", "judged", "others", "clusters", "responses"),
    [
        ([1, 0, 0, 1], [1, 0, 0, 1], [0, 0], "aabb", 2),  # each response meets one of two, and so do the judge's
        ([1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 0, 1], [], "aabbcc", 3),
        ([0, 0, 0, 0], [0, 0, 1, 0], [0, 1], None, 4),
        ([1, 1, 1], [1, 1, 1], [], None, 3),
    ],
)
def test_a_pass_rate_on_which_the_responses_agree_has_the_bounds_of_as_few_trials(
    labels, judged, others, clusters, responses
):
    other_clusters = clusters and "ab"[: len(others)]
    rate = error_rates(labels, judged, others, clusters=clusters, other_clusters=other_clusters).pass_rate
    assert (rate.low, rate.high) == pytest.approx(wilson(rate.value, responses), abs=1e-6)
    assert rate.high - rate.low > 0.4


def test_error_rate_equal_in_each_response_has_the_bounds_of_few_trials():
    rate = error_rates([0, 0, 1, 0, 0, 1], [1, 0, 1, 0, 1, 1], clusters="aaabbb").false_positive
    assert rate.value == 0.5
    assert (rate.low, rate.high) == pytest.approx(wilson(0.5, 2), abs=1e-6)


def test_what_cannot_be_estimated_is_refused():
    with pytest.raises(ValueError, match=r"credit is 0\.5"):
        error_rates([1, 0.5], [1, 0])
    with pytest.raises(ValueError, match="2 labels and 1 predictions"):
        prediction_powered_mean([1, 0], [1])
    with pytest.raises(ValueError, match="0 labels"):
        prediction_powered_mean([], [])
