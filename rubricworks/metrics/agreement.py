"""Agreement of raters: accuracy, Cohen's kappa, Krippendorff's alpha, with bootstrap intervals.

A rating is a number, or None where a rater gave none. Accuracy, kappa and nominal alpha compare ratings for equality;
interval alpha squares their distance, so that 0.5 for 1 is a quarter of the disagreement of 0 for 1. Between zeros and
ones the two alphas are the same.

A coefficient that is not defined is None, never 0 or 1: no unit has two ratings; or all ratings are equal, where chance
alone gives full agreement (0/0).

Sources: Cohen, A Coefficient of Agreement for Nominal Scales (1960); Krippendorff, Computing Krippendorff's
Alpha-Reliability (2011); the bootstrap of clusters: Davison and Hinkley, Bootstrap Methods (1997), section 3.8.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from rubricworks.metrics.clustered_agreement import (
    Array,
    Coefficient,
    Level,
    RatedUnits,
    Rating,
    alpha,
    equal_share,
    kappa,
    rated_units,
)
from rubricworks.metrics.intervals import Interval, percentile_interval, widen_share

_BLOCK = 4_000_000
"""Weights in memory at a time: 32 MB."""


class Agreement(BaseModel):
    """Coefficients of two raters over the units that both rated; None where one is not defined.

    A coefficient has no bounds if there is one response alone, or if more than 1 - level of the resamples leave it
    undefined (nearly all ratings are equal).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    units: int = Field(examples=[118])
    """Units with both ratings: verdicts, where the raters are judges."""
    responses: int = Field(examples=[40])
    """Responses, the independent clusters that the units belong to."""
    accuracy: Interval | None
    kappa: Interval | None
    alpha_nominal: Interval | None
    alpha_interval: Interval | None


def accuracy(first: Sequence[Rating], second: Sequence[Rating]) -> float | None:
    """Share of equal ratings among the units with both ratings; None if there is no such unit."""
    return _value(equal_share, rated_units([first, second]))


def cohen_kappa(first: Sequence[Rating], second: Sequence[Rating]) -> float | None:
    """Agreement of two raters beyond chance, each with its own marginals; None if all their ratings are equal."""
    return _value(kappa, rated_units([first, second]))


def krippendorff_alpha(ratings: Sequence[Sequence[Rating]], *, level: Level = "nominal") -> float | None:
    """Agreement of any number of raters beyond chance, over the units with at least two ratings.

    Args:
        ratings: one sequence per rater, over the same units in the same order; None where a rater gave no rating.
    Returns:
        1 for full agreement, 0 for agreement by chance, below 0 for less; None if all ratings are equal.
    """
    return _value(alpha(level), rated_units(ratings))


def confusion(first: Sequence[Rating], second: Sequence[Rating]) -> dict[tuple[float, float], int]:
    """Counts of the pairs of ratings, (first's, second's), in order; pairs that never occur are absent."""
    pairs = Counter(zip(*rated_units([first, second]).ratings_NU.tolist(), strict=True))
    return dict(sorted(pairs.items()))


def pair_agreement(
    first: Sequence[Rating],
    second: Sequence[Rating],
    responses: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Agreement:
    """Agreement of two raters with percentile bootstrap intervals, reproducible by seed.

    Args:
        responses: the response of each unit. Responses are resampled whole: the verdicts on one response err together,
            so resampling single verdicts would make the intervals too narrow. An accuracy of 0 or 1 has Wilson's bounds
            (`widen_share`).
    Raises:
        ValueError: the lengths differ, or level or resamples is out of range.
    """
    units = rated_units([first, second], responses)
    coefficients = [equal_share, kappa, alpha("nominal"), alpha("interval")]
    share, *others = _estimates(coefficients, units, level=level, resamples=resamples, seed=seed)
    estimates = [share and widen_share(share, units.responses, level), *others]
    names = ("accuracy", "kappa", "alpha_nominal", "alpha_interval")
    return Agreement(units=units.count, responses=units.responses, **dict(zip(names, estimates, strict=True)))


def alpha_estimate(
    ratings: Sequence[Sequence[Rating]],
    responses: Sequence[Hashable],
    *,
    scale: Level = "nominal",
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Interval | None:
    """`krippendorff_alpha` of any number of raters, with an interval as in `pair_agreement`."""
    units = rated_units(ratings, responses)
    return _estimates([alpha(scale)], units, level=level, resamples=resamples, seed=seed)[0]


def _estimates(
    coefficients: Sequence[Coefficient], units: RatedUnits, *, level: float, resamples: int, seed: int
) -> list[Interval | None]:
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it lies between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; at least 1 is drawn")
    values = [_value(coefficient, units) for coefficient in coefficients]
    if units.responses < 2:
        return [None if value is None else Interval(value=value) for value in values]
    replicates = np.empty((len(coefficients), resamples))
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // (units.count + units.responses))
    for start in range(0, resamples, rows):
        weights_BR = _draw(generator, min(rows, resamples - start), units.responses)
        for coefficient, row in zip(coefficients, replicates, strict=True):
            row[start : start + rows] = coefficient(units, weights_BR)
    return [
        None if value is None else percentile_interval(value, row, level)
        for value, row in zip(values, replicates, strict=True)
    ]


def _draw(generator: np.random.Generator, times: int, responses: int) -> Array:
    """Draw `times` samples with replacement: the count of each response, [times, responses]."""
    draws = generator.integers(0, responses, size=(times, responses))
    draws += np.arange(times)[:, None] * responses
    return np.bincount(draws.ravel(), minlength=times * responses).reshape(times, responses).astype(float)


def _value(coefficient: Coefficient, units: RatedUnits) -> float | None:
    if not units.count:
        return None
    value = float(coefficient(units, np.ones((1, units.responses)))[0])
    return None if np.isnan(value) else value
