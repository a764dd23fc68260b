"""Paired comparisons of models: bootstrap p-values, corrected for their number.

Sources: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 15; Holm, A Simple Sequentially Rejective
Multiple Test Procedure (1979).
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from rubricworks.metrics.intervals import resampled_means

Key = TypeVar("Key", bound=Hashable)


def bootstrap_p_value(
    differences: Iterable[float | None],
    *,
    strata: Sequence[Hashable] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> float | None:
    """Two-sided p-value of a mean of paired differences against 0.

    Twice the smaller share of resampled means on either side of 0, where 0 itself counts for both; at least
    2 / (resamples + 1). With strata it is the mean of the strata's means. None with fewer than two differences.

    Args:
        differences: None could not be judged and does not count.
    """
    pairs = [(value, strata[at] if strata else 0) for at, value in enumerate(differences) if value is not None]
    if len(pairs) < 2:
        return None
    generator = np.random.default_rng(seed)
    means = np.zeros(resamples)
    groups = dict.fromkeys(stratum for _, stratum in pairs)
    for group in groups:
        values = np.array([value for value, stratum in pairs if stratum == group], np.float64)
        means += resampled_means(values, resamples, generator) / len(groups)
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (resamples + 1))


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """p-values corrected for their number: the k-th smallest of n times n + 1 - k, never below a smaller one's."""
    corrected: dict[Key, float] = {}
    highest = 0.0
    for place, (key, value) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        highest = max(highest, min(1.0, value * (len(p_values) - place)))
        corrected[key] = highest
    return {key: corrected[key] for key in p_values}
