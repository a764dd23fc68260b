"""Prediction-powered estimates: few labels of people and many verdicts of a judge, in one interval.

Labels are right and dear, verdicts are cheap and biased. The mean of the labels is moved by how far the judge's mean on
the other items lies from its mean on the labelled ones, times a power λ. With λ = 0 only the labels count. The tuned λ
minimises the variance, so the interval is never much wider than that of the labels alone, and the better the judge, the
narrower. Valid for any judge, if the labelled items are a random draw: of responses, or of items, so that a response
has items of both kinds; what these share is counted once, by response.

Sources: Angelopoulos et al., Prediction-Powered Inference (2023), algorithm 1, the mean; Angelopoulos, Duchi and Zrnic,
PPI++ (2023), example 6.1, the tuned λ. Ratios by the delta method, dependent items by clusters (Liang and Zeger, 1986);
bounds of a share by its logit (Agresti, Categorical Data Analysis, 3.1.6), and Wilson's where the clusters agree on it.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rubricworks.metrics.intervals import Interval, t_quantile, wilson_interval

Numbers = NDArray[np.float64]

_NO_SPREAD = 1e-9
"""Width of an interval that rounding alone keeps from being a point."""


class ErrorRates(NamedTuple):
    """Error rates of a binary judge; None for a rate without labels of its kind."""

    false_positive: Interval | None
    """Share of what people do not credit that the judge credits."""
    false_negative: Interval | None
    """Share of what people credit that the judge does not."""
    pass_rate: Interval
    """Share of all items, labelled or not, that people would credit."""


def prediction_powered_mean(
    labels: Sequence[float],
    predictions: Sequence[float],
    others: Sequence[float] = (),
    *,
    clusters: Sequence[Hashable] | None = None,
    other_clusters: Sequence[Hashable] | None = None,
    power: float | None = None,
    level: float = 0.95,
) -> Interval:
    """Mean of the labels over all items.

    Args:
        labels: by people.
        predictions: of the judge, on the labelled items.
        others: predictions on the items without a label.
        clusters: group of each labelled item, such as its response; items of a group may depend on each other.
        other_clusters: the same of the others, by the same names where a group has items of both kinds.
        power: λ; by default tuned, and 0 without others.
    Raises:
        ValueError: there is no label, or the lengths differ.
    """
    sample = _Sample.of(predictions, others, clusters, other_clusters)
    labelled = sample.labelled(labels)
    power = sample.tuned_power(labelled) if power is None else power
    value = float(labelled.mean() - power * sample.shift)
    return sample.interval(value, labelled - power * sample.predictions, power, level)


def error_rates(
    labels: Sequence[float],
    predictions: Sequence[float],
    others: Sequence[float] = (),
    *,
    clusters: Sequence[Hashable] | None = None,
    other_clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> ErrorRates:
    """False-positive and false-negative rates of a judge whose credits are 0 or 1; arguments as in the mean.

    Raises:
        ValueError: there is no label, the lengths differ, or a credit is neither 0 nor 1.
    """
    if strange := {*labels, *predictions, *others} - {0, 1}:
        raise ValueError(f"a credit is {strange.pop()}; error rates are of credits that are 0 or 1")
    sample = _Sample.of(predictions, others, clusters, other_clusters)
    met = sample.labelled(labels)
    judged = sample.predictions
    return ErrorRates(
        false_positive=sample.ratio(judged * (1 - met), 1 - met, level),
        false_negative=sample.ratio((1 - judged) * met, met, level),
        pass_rate=_as_share(
            prediction_powered_mean(
                labels, predictions, others, clusters=clusters, other_clusters=other_clusters, level=level
            ),
            len(np.unique(sample.cluster_of)),
            level,
        ),
    )


class _Sample(NamedTuple):
    """Predictions on labelled items and on others, with the clusters of both as numbers of one count."""

    predictions: Numbers
    others: Numbers
    cluster_of: NDArray[np.intp]
    other_cluster_of: NDArray[np.intp]

    @classmethod
    def of(
        cls,
        predictions: Sequence[float],
        others: Sequence[float],
        clusters: Sequence[Hashable] | None,
        other_clusters: Sequence[Hashable] | None,
    ) -> "_Sample":
        positions: dict[Hashable, int] = {}
        return cls(
            np.array(predictions, dtype=float),
            np.array(others, dtype=float),
            _numbered(clusters, len(predictions), positions),
            _numbered(other_clusters, len(others), positions),
        )

    def labelled(self, values: Sequence[float]) -> Numbers:
        if not len(values) or len(values) != len(self.predictions):
            raise ValueError(
                f"{len(values)} labels and {len(self.predictions)} predictions; give as many, one at least"
            )
        return np.array(values, dtype=float)

    @property
    def shift(self) -> float:
        """Judge's mean on the labelled items minus that on the others."""
        return float(self.predictions.mean() - self.others.mean()) if len(self.others) else 0.0

    def tuned_power(self, values: Numbers) -> float:
        """λ of least variance: cov(value, prediction) / ((1 + n/N) var(prediction))."""
        if not len(self.others) or len(values) < 2:
            return 0.0
        spread = np.var(np.concatenate([self.predictions, self.others]), ddof=1)
        covariance = np.cov(values, self.predictions)[0, 1]
        return float(covariance / ((1 + len(values) / len(self.others)) * spread)) if spread else 0.0

    def ratio(self, above: Numbers, below: Numbers, level: float) -> Interval | None:
        """Mean of `above` over the mean of `below`, both prediction-powered."""
        if not below.any():
            return None
        powers = [self.tuned_power(values) for values in (above, below)]
        means = [values.mean() - power * self.shift for values, power in zip((above, below), powers, strict=True)]
        if means[1] <= 0:
            return None
        value = float(means[0] / means[1])
        power = powers[0] - value * powers[1]
        errors = (above - value * below - power * self.predictions) / means[1]
        interval = self.interval(value, errors, power / means[1], level)
        return _as_share(interval, len(np.unique(self.cluster_of[below > 0])), level)

    def interval(self, value: float, errors: Numbers, power: float, level: float) -> Interval:
        """The value with Student's bounds.

        Args:
            errors: value of each labelled item less its powered prediction, up to a constant.
        """
        clusters = int(self.cluster_of.max()) + 1
        if clusters < 2:
            return Interval(value=value)
        count = max(clusters, int(self.other_cluster_of.max(initial=-1)) + 1)
        shares = _shares_of_error(errors, self.cluster_of, count)
        if len(self.others) and power:
            shares += power * _shares_of_error(self.others, self.other_cluster_of, count)
        reach = t_quantile(level, clusters - 1) * math.sqrt(float((shares**2).sum()))
        return Interval(value=value, low=value - reach, high=value + reach)


def _shares_of_error(values: Numbers, cluster_of: NDArray[np.intp], count: int) -> Numbers:
    """Share of each of `count` clusters in the error of the mean; the sum of squares is the mean's variance.

    Shares of a cluster in two means are added before they are squared, so that the covariance of the means counts.
    """
    sums = np.bincount(cluster_of, weights=values - values.mean(), minlength=count)
    own = len(np.unique(cluster_of))
    return sums * math.sqrt(own / max(own - 1, 1)) / len(values)


def _numbered(clusters: Sequence[Hashable] | None, count: int, positions: dict[Hashable, int]) -> NDArray[np.intp]:
    """Number of each item's cluster in `positions`, which new clusters are added to; without clusters all differ."""
    if clusters is None:
        clusters = [object() for _ in range(count)]
    if len(clusters) != count:
        raise ValueError(f"{count} predictions, but {len(clusters)} clusters; give one for each")
    return np.array([positions.setdefault(cluster, len(positions)) for cluster in clusters], dtype=np.intp)


def _as_share(interval: Interval, clusters: int, level: float) -> Interval:
    """The interval of a share, taken on the scale of its logit, where it is less skewed and stays within [0, 1].

    If all clusters are equal, Student's bounds are the value itself, whatever the number of responses. Such shares get
    Wilson's bounds with one trial per cluster.
    """
    value = min(max(interval.value, 0.0), 1.0)
    if interval.low is None or interval.high is None:
        return Interval(value=value)
    if interval.high - interval.low < _NO_SPREAD:
        wilson = wilson_interval(value * clusters, clusters, level)
        return Interval(value=value, low=wilson.low, high=wilson.high)
    if value in (0, 1):
        return Interval(value=value, low=max(interval.low, 0.0), high=min(interval.high, 1.0))
    logit, reach = math.log(value / (1 - value)), (interval.high - interval.low) / 2 / (value * (1 - value))
    low, high = (1 / (1 + math.exp(min(-bound, 700.0))) for bound in (logit - reach, logit + reach))
    return Interval(value=value, low=low, high=high)
