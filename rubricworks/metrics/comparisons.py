"""Paired comparisons of models: p-values of mean differences, corrected for their number.

Sources: Student's paired t test; Welch, The Generalization of "Student's" Problem (1947), for strata; Fisher's sign
flips for differences without spread (The Design of Experiments, section 21); Holm, A Simple Sequentially Rejective
Multiple Test Procedure (1979).
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean, variance
from typing import TypeVar

from rubricworks.metrics.intervals import t_share

Key = TypeVar("Key", bound=Hashable)


def paired_p_value(differences: Iterable[float | None], *, strata: Sequence[Hashable] | None = None) -> float | None:
    """Two-sided p-value of a mean of paired differences against 0, by Student's t test.

    Its tails are exact where differences are normal, and have no floor, so that a correction for any number of
    comparisons leaves something to find. With strata the mean is that of the strata's means (Welch's degrees of
    freedom, rounded down). Differences that are all the same have no spread to test by: of n of them, one of 2^(n-1)
    flips of signs is as extreme. None with fewer than two differences, or with a stratum of one.

    Args:
        differences: None could not be judged and does not count.
    """
    pairs = [(strata[at] if strata else 0, value) for at, value in enumerate(differences) if value is not None]
    order = {stratum: place for place, (stratum, _) in enumerate(pairs)}
    ordered = sorted(pairs, key=lambda pair: order[pair[0]])
    groups = [[value for _, value in group] for _, group in groupby(ordered, key=lambda pair: pair[0])]
    if not groups or min(map(len, groups)) < 2:
        return None
    mean = fmean(map(fmean, groups))
    parts = [variance(group) / len(group) / len(groups) ** 2 for group in groups]
    if not (spread := sum(parts)):
        return 1.0 if mean == 0 else 2.0 ** (1 - min(len(pairs), 1_000))
    freedom = spread**2 / sum(part**2 / (len(group) - 1) for part, group in zip(parts, groups, strict=True))
    return 1 - t_share(abs(mean) / math.sqrt(spread), max(1, math.floor(freedom + 1e-9)))


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """p-values corrected for their number: the k-th smallest of n times n + 1 - k, never below a smaller one's."""
    corrected: dict[Key, float] = {}
    highest = 0.0
    for place, (key, value) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        highest = max(highest, min(1.0, value * (len(p_values) - place)))
        corrected[key] = highest
    return {key: corrected[key] for key in p_values}
