"""Percentile bootstrap intervals of a mean (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13)."""

import math
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from rubricworks.metrics.agreement import Estimate

_BLOCK = 4_000_000
"""Indices in memory at a time: 32 MB."""


class Interval(BaseModel):
    """A mean with its confidence bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float
    high: float


def bootstrap_interval(
    values: Iterable[float | None], *, level: float = 0.95, resamples: int = 2_000, seed: int = 0
) -> Interval:
    """Mean of the values with its percentile bootstrap interval, reproducible by seed.

    Args:
        values: one per sample; None and NaN (could not be judged) do not count.
        level: share of resampled means inside the interval, between 0 and 1.
    Raises:
        ValueError: no value is left, or level or resamples is out of range.
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it lies between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; at least 1 is drawn")
    numbers = np.array([value for value in values if value is not None and not math.isnan(value)], dtype=np.float64)
    if numbers.size == 0:
        raise ValueError("no values to average: every one is missing")
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    rows = max(1, _BLOCK // numbers.size)
    for start in range(0, resamples, rows):
        size = (min(rows, resamples - start), numbers.size)
        means[start : start + rows] = numbers[generator.integers(0, numbers.size, size=size)].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value=float(numbers.mean()), low=float(low), high=float(high))


def clustered_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """Mean of clustered values, with clusters resampled whole (Davison and Hinkley 1997, section 3.8).

    Args:
        values: one or several per cluster.
        clusters: the cluster of each value; a single cluster gives no bounds.
    Raises:
        ValueError: there is no value, the lengths differ, or level or resamples is out of range.
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level is {level}, resamples {resamples}; between 0 and 1, and at least 1")
    if not values or len(values) != len(clusters):
        raise ValueError(f"{len(values)} values in {len(clusters)} clusters; give one cluster for each, and some")
    positions = {cluster: position for position, cluster in enumerate(dict.fromkeys(clusters))}
    cluster_of = [positions[cluster] for cluster in clusters]
    sums, sizes = np.bincount(cluster_of, weights=values), np.bincount(cluster_of)
    value = float(sums.sum() / sizes.sum())
    if (count := len(positions)) < 2:
        return Estimate(value=value)
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    rows = max(1, _BLOCK // count)
    for start in range(0, resamples, rows):
        draws = generator.integers(0, count, size=(min(rows, resamples - start), count))
        means[start : start + rows] = sums[draws].sum(axis=1) / sizes[draws].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value=value, low=float(low), high=float(high))
