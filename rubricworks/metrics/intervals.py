"""Numbers with confidence bounds: means over samples, shares, paired differences, means over seeds.

    mean_interval       scores of samples, with their counts: bootstrap; Wilson's where all are 0 or all are 1
    share_interval      the same without counts
    bootstrap_interval  differences and counts: percentile bootstrap, plain, clustered or stratified
    wilson_interval     successes among a number of trials: Wilson's score interval
    t_interval          a handful of independent runs: Student's t

Sources: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13; clusters: Davison and Hinkley, Bootstrap
Methods (1997), section 3.8; Wilson, Probable Inference, the Law of Succession, and Statistical Inference (1927); Brown,
Cai and DasGupta, Interval Estimation for a Binomial Proportion (2001); Student's distribution for whole degrees of
freedom: Abramowitz and Stegun, 26.7.3 and 26.7.4, inverted by bisection, so that the core needs no statistics package.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from statistics import NormalDist, harmonic_mean, mean, stdev
from typing import Annotated, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

_BLOCK = 4_000_000
"""Indices in memory at a time: 32 MB."""
Key = TypeVar("Key", bound=Hashable)
Numbers = NDArray[np.float64]
_Json = Annotated[dict[str, object], Field(examples=[{"value": 0.8, "low": 0.72, "high": 0.88}])]


class Interval(BaseModel):
    """A value with its confidence bounds.

    The bounds are None where the data cannot give them: one seed or one cluster alone, or a resampled coefficient that
    is mostly undefined. JSON has `samples` and `missing` only where they were counted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float | None = None
    high: float | None = None
    samples: int | None = None
    """Number of samples that were judged; None if they were not counted."""
    missing: int = 0
    """Number of samples that could not be judged and are left out."""

    @model_validator(mode="after")
    def _whole(self) -> "Interval":
        if (self.low is None) != (self.high is None):
            raise ValueError(f"low is {self.low} and high is {self.high}; give both bounds or neither")
        if self.missing and self.samples is None:
            raise ValueError(f"missing is {self.missing}, but samples is not given")
        return self

    @model_serializer(mode="wrap")
    def _without_empty_counts(self, serialise: SerializerFunctionWrapHandler) -> _Json:
        fields: dict[str, object] = serialise(self)
        if self.samples is None:
            fields.pop("samples", None)
            fields.pop("missing", None)
        return fields

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Both bounds, or None."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def lies_above(self, level: float, *, inclusive: bool = False) -> bool:
        """Return True if the whole interval is above `level`, or also at it; False without bounds."""
        return self.low is not None and (self.low > level or (inclusive and self.low == level))

    def lies_below(self, level: float, *, inclusive: bool = False) -> bool:
        """Return True if the whole interval is below `level`, or also at it; False without bounds."""
        return self.high is not None and (self.high < level or (inclusive and self.high == level))

    def is_apart_from(self, other: "Interval") -> bool:
        """Return True if the two intervals do not overlap; False if one has no bounds."""
        bounds = other.bounds
        return bounds is not None and (self.lies_below(bounds[0]) or self.lies_above(bounds[1]))


def mean_interval(
    values: Iterable[float | None],
    *,
    share: bool = True,
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Interval | None:
    """Mean of the judged values with its interval and the counts of judged and missing values; None without any.

    Args:
        values: one per sample; None and NaN (could not be judged) do not count.
        share: the values lie in [0, 1], as scores, wins and right answers do (`share_interval`); False for differences
            and counts (`bootstrap_interval`).
        clusters: as in `bootstrap_interval`, and so are the others.
    """
    values = list(values)
    samples = sum(map(_is_judged, values))
    if not samples:
        return None
    bounded = share_interval if share else bootstrap_interval
    interval = bounded(values, clusters=clusters, strata=strata, level=level, resamples=resamples, seed=seed)
    return interval.model_copy(update={"samples": samples, "missing": len(values) - samples})


def paired_differences(
    values: Mapping[Key, float | None], others: Mapping[Key, float | None]
) -> dict[Key, float | None]:
    """Value minus other for every shared key, in the order of `values`; None if either is None.

    The difficulty of a sample cancels out of its difference, so the mean of the differences has a narrower interval
    than either mean. It is no share: take `mean_interval(differences.values(), share=False)`.
    """
    return {
        key: None if value is None or (other := others[key]) is None else value - other
        for key, value in values.items()
        if key in others
    }


def share_interval(
    values: Iterable[float | None],
    *,
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Interval:
    """`bootstrap_interval` of values in [0, 1], with Wilson's bounds where all of them are 0 or all are 1.

    Wilson's number of trials is then the number of values. For clustered values it is the number of clusters, because
    values that all agree do not show how strongly the values of a cluster are correlated. For K strata of n_k values
    each it is K² / sum of 1 / n_k: a plain sample of this size has the same variance as the mean of the strata's means.

    Raises:
        ValueError: as `bootstrap_interval`.
    """
    values = list(values)
    interval = bootstrap_interval(values, clusters=clusters, strata=strata, level=level, resamples=resamples, seed=seed)
    if interval.bounds is None and clusters is None and interval.value in (0, 1):
        return wilson_interval(interval.value, 1, level)  # one value
    groups = clusters if clusters is not None else strata if strata is not None else range(len(values))
    sizes = Counter(group for value, group in zip(values, groups, strict=True) if _is_judged(value))
    trials = len(sizes) * (harmonic_mean(list(sizes.values())) if strata is not None else 1)
    return widen_share(interval, trials, level)


def widen_share(share: Interval, trials: float, level: float = 0.95) -> Interval:
    """Replace the bounds of a share of 0 or 1 without spread by those of `wilson_interval`.

    Resamples of equal values are equal, so the bootstrap gives 0 to 0 after three failures in three trials, just as
    after a thousand in a thousand. Brown, Cai and DasGupta (2001) recommend Wilson's interval for such shares and small
    samples.
    """
    if share.value not in (0, 1) or share.bounds != (share.value, share.value):
        return share
    wilson = wilson_interval(share.value * trials, trials, level)
    return share.model_copy(update={"low": wilson.low, "high": wilson.high})


def bootstrap_interval(
    values: Iterable[float | None],
    *,
    clusters: Sequence[Hashable] | None = None,
    strata: Sequence[Hashable] | None = None,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Interval:
    """Mean of the values with its percentile bootstrap interval, reproducible by seed.

    Args:
        values: None and NaN (could not be judged) do not count; a single one gives no bounds.
        clusters: the cluster of each value, such as its image; clusters are resampled whole, and a single one gives no
            bounds. By default every value is resampled by itself.
        strata: the stratum of each value, such as its task: the mean is that of the strata's means, and each stratum's
            values are resampled within it.
        level: share of resampled means inside the interval, between 0 and 1.
    Raises:
        ValueError: no value is left, the lengths differ, both clusters and strata are given, or level or resamples is
            out of range.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it lies between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; at least 1 is drawn")
    if clusters is not None and strata is not None:
        raise ValueError("values have clusters or strata, not both")
    values = list(values)
    judged = [_is_judged(value) for value in values]
    numbers = np.array(list(compress(values, judged)), dtype=np.float64)
    if numbers.size == 0:
        raise ValueError("no values to average: every one is missing")
    generator = np.random.default_rng(seed)

    if clusters is not None:
        positions = _positions(clusters, judged, "cluster")
        sums, sizes = np.bincount(positions, weights=numbers), np.bincount(positions)
        value = float(sums.sum() / sizes.sum())
        if sizes.size < 2:
            return Interval(value=value)
        means = _replicates(
            lambda draws: sums[draws].sum(axis=1) / sizes[draws].sum(axis=1), sizes.size, resamples, generator
        )
    elif strata is not None:
        positions = _positions(strata, judged, "stratum")
        parts = [numbers[positions == position] for position in range(positions.max() + 1)]
        value = float(np.mean([part.mean() for part in parts]))
        means = np.sum([resampled_means(part, resamples, generator) for part in parts], axis=0) / len(parts)
        # (1 - 0.95) / 2 is 2e-17 above 0.025: stored summaries of answers have the quantile of 0.025 itself.
        low, high = np.quantile(means, [round((1 - level) / 2, 12), round((1 + level) / 2, 12)])
        return Interval(value=value, low=float(low), high=float(high))
    else:
        value = float(numbers.mean())
        if numbers.size < 2:
            return Interval(value=value)
        means = resampled_means(numbers, resamples, generator)
    return percentile_interval(value, means, level)


def percentile_interval(value: float, replicates: Numbers, level: float = 0.95) -> Interval:
    """The value with the quantiles of its replicates as bounds.

    Without bounds if more than 1 - level of the replicates are NaN: resamples that leave the value undefined.
    """
    defined = replicates[~np.isnan(replicates)]
    if defined.size < level * replicates.size:
        return Interval(value=value)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value=value, low=float(low), high=float(high))


def wilson_interval(successes: float, trials: float, level: float = 0.95) -> Interval:
    """Share of successes with Wilson's score interval (1927).

    Args:
        successes: between 0 and `trials`; both may be effective numbers, and so fractions.
    Raises:
        ValueError: there is no trial, or a number is out of range.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it lies between 0 and 1")
    if not 0 <= successes <= trials or trials <= 0:
        raise ValueError(f"{successes} successes in {trials} trials; give at least one trial, and no more successes")
    share, z = successes / trials, NormalDist().inv_cdf((1 + level) / 2)
    centre = share + z * z / (2 * trials)
    reach = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    # At the ends the bound is the share itself, without rounding errors.
    low = 0.0 if successes == 0 else (centre - reach) / scale
    high = 1.0 if successes == trials else (centre + reach) / scale
    return Interval(value=share, low=low, high=high)


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Mean of independent runs with Student's t interval; one value has no bounds, because its spread is unknown.

    Raises:
        ValueError: there is no value, or the level is out of range.
    """
    if not values:
        raise ValueError("no values to average")
    if len(values) < 2:
        return Interval(value=mean(values))
    # Exact sums: equal values have no spread at all, and the interval is that one point.
    reach = t_quantile(level, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(value=mean(values), low=mean(values) - reach, high=mean(values) + reach)


@lru_cache
def t_quantile(level: float, freedom: int) -> float:
    """The t whose distribution has a share of `level` between -t and t.

    Raises:
        ValueError: the level is not between 0 and 1, or there is no degree of freedom.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"level is {level}, degrees of freedom {freedom}; between 0 and 1, and at least 1")
    low, high = 0.0, 1.0
    while t_share(high, freedom) < level:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_share(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def t_share(t: float, freedom: int) -> float:
    """Share of Student's distribution between -t and t, for a whole number of degrees of freedom."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = cosine if odd else 1.0, 0.0
    for factor in range(2 if odd else 1, freedom, 2):
        total += term
        term *= cosine * cosine * factor / (factor + 1)
    return (angle + sine * total) * 2 / math.pi if odd else sine * total


def _is_judged(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _positions(groups: Sequence[Hashable], judged: Sequence[bool], name: str) -> NDArray[np.intp]:
    """The position of each judged value's group, numbered by first appearance."""
    if len(groups) != len(judged):
        raise ValueError(f"{len(judged)} values, but {len(groups)} times a {name}; give one {name} for each value")
    positions: dict[Hashable, int] = {}
    return np.array([positions.setdefault(group, len(positions)) for group in compress(groups, judged)], np.intp)


def resampled_means(numbers: Numbers, resamples: int, generator: np.random.Generator) -> Numbers:
    """Means of `resamples` bootstrap resamples."""
    return _replicates(lambda draws: numbers[draws].mean(axis=1), numbers.size, resamples, generator)


def _replicates(
    statistic: Callable[[NDArray[np.int64]], Numbers], count: int, resamples: int, generator: np.random.Generator
) -> Numbers:
    """The statistic of each resample, given the positions drawn from `count` values, [resamples, count]."""
    replicates = np.empty(resamples)
    rows = max(1, _BLOCK // count)
    for start in range(0, resamples, rows):
        draws = generator.integers(0, count, size=(min(rows, resamples - start), count))
        replicates[start : start + rows] = statistic(draws)
    return replicates
