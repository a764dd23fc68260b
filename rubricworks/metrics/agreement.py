"""Agreement of raters: accuracy, Cohen's kappa, Krippendorff's alpha, with bootstrap intervals.

A rating is a number, or None where a rater gave none. Accuracy, kappa and nominal alpha compare ratings for equality;
interval alpha squares their distance, so that 0.5 for 1 is a quarter of the disagreement of 0 for 1. Between zeros and
ones the two alphas are the same.

A coefficient that is not defined is None, never 0 or 1: no unit has two ratings; or all ratings are equal, where chance
alone gives full agreement (0/0).

Sources: Cohen, A Coefficient of Agreement for Nominal Scales (1960); Krippendorff, Computing Krippendorff's
Alpha-Reliability (2011); the bootstrap of clusters: Davison and Hinkley, Bootstrap Methods (1997), section 3.8.

Agreement coefficients as sums over responses, each with a weight of its own.

A sample gives every response weight 1; a bootstrap resample weighs a response by the times that it draws it. Estimate
and interval use the same code, so they belong to the same coefficient. `agreement` defines the coefficients.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from rubricworks.metrics.intervals import Interval, percentile_interval, widen_share

Level = Literal["nominal", "interval"]
Rating = float | None
Array = NDArray[np.float64]


@dataclass(frozen=True)
class RatedUnits:
    """U units with ratings of at least two of N raters, in R responses, with C different ratings."""

    ratings_NU: Array
    """NaN where there is no rating."""
    category_NU: NDArray[np.intp]
    """Position of the rating in `ratings_C`, -1 where there is no rating."""
    ratings_C: Array
    response_U: NDArray[np.intp]
    responses: int

    @property
    def count(self) -> int:
        """The number U."""
        return len(self.response_U)


Coefficient = Callable[[RatedUnits, Array], Array]
"""Maps weights of the responses, [B, R], to B values; NaN where the coefficient is not defined."""


def rated_units(ratings: Sequence[Sequence[Rating]], responses: Sequence[Hashable] | None = None) -> RatedUnits:
    """Collect the units with ratings of at least two raters.

    Args:
        responses: the response of each unit; by default every unit is a response of its own.
    Raises:
        ValueError: there is one rater alone, or the lengths differ.
    """
    lengths = [len(rater) for rater in ratings] + ([] if responses is None else [len(responses)])
    if len(ratings) < 2:
        raise ValueError(f"{len(ratings)} rater: agreement needs at least 2")
    if len(set(lengths)) > 1:
        raise ValueError(f"lengths differ: {', '.join(map(str, lengths))}; every rater has one place per unit")
    ratings_NU = np.array([[np.nan if rating is None else rating for rating in rater] for rater in ratings], float)
    present_NU = ~np.isnan(ratings_NU)
    shared = present_NU.sum(axis=0) >= 2
    ratings_NU, present_NU = ratings_NU[:, shared], present_NU[:, shared]
    ratings_C, categories = np.unique(ratings_NU[present_NU], return_inverse=True)
    category_NU = np.full(ratings_NU.shape, -1)
    category_NU[present_NU] = categories
    names: Iterable[Hashable] = range(shared.size) if responses is None else responses
    positions: dict[Hashable, int] = {}
    response_U = [positions.setdefault(name, len(positions)) for name in itertools.compress(names, shared)]
    return RatedUnits(ratings_NU, category_NU, ratings_C, np.array(response_U, np.intp), len(positions))


def equal_share(units: RatedUnits, weights_BR: Array) -> Array:
    """Accuracy of two raters."""
    equal_U = units.category_NU[0] == units.category_NU[1]
    return _total(units, weights_BR, equal_U) / _total(units, weights_BR, np.ones(units.count))


def kappa(units: RatedUnits, weights_BR: Array) -> Array:
    """(p_o - p_e) / (1 - p_e) in Cohen's letters, times n squared: whole numbers, so that 0/0 is exact."""
    first_BC, second_BC = (_counts(units, weights_BR, [rater]) for rater in (0, 1))
    n_B = first_BC.sum(axis=1)
    equal_B = _total(units, weights_BR, units.category_NU[0] == units.category_NU[1])
    by_chance_B = (first_BC * second_BC).sum(axis=1)
    return _ratio(n_B * equal_B - by_chance_B, n_B**2 - by_chance_B)


def alpha(level: Level) -> Coefficient:
    """1 - (n - 1) sum of o_ck d_ck / sum of n_c n_k d_ck, in Krippendorff's letters."""

    def coefficient(units: RatedUnits, weights_BR: Array) -> Array:
        counts_BC = _counts(units, weights_BR, range(len(units.ratings_NU)))
        n_B = counts_BC.sum(axis=1)
        unlike_B = n_B**2 - (counts_BC**2).sum(axis=1)
        if level == "nominal":
            expected_B = unlike_B
        else:
            around_C = units.ratings_C - units.ratings_C.mean()  # near zero the difference keeps its digits
            expected_B = 2 * (n_B * (counts_BC @ around_C**2) - (counts_BC @ around_C) ** 2)
            expected_B[unlike_B == 0] = 0
        observed_B = _total(units, weights_BR, _distances(units, level))
        return 1 - _ratio((n_B - 1) * observed_B, expected_B)

    return coefficient


def _distances(units: RatedUnits, level: Level) -> Array:
    """Per unit: sum of the distances of all ordered pairs of its ratings, divided by its ratings less one."""
    total_U = np.zeros(units.count)
    for a, b in itertools.combinations(units.ratings_NU, 2):
        total_U += np.nan_to_num((a - b) ** 2) if level == "interval" else (a != b) & ~np.isnan(a) & ~np.isnan(b)
    distance_U: Array = 2 * total_U / ((units.category_NU >= 0).sum(axis=0) - 1)
    return distance_U


def _total(units: RatedUnits, weights_BR: Array, values_U: NDArray[np.generic]) -> Array:
    total_B: Array = weights_BR @ np.bincount(units.response_U, weights=values_U, minlength=units.responses)
    return total_B


def _counts(units: RatedUnits, weights_BR: Array, raters: Iterable[int]) -> Array:
    """Weighted counts of each rating, [B, C]; adds only the ratings that a response holds, so C may be large."""
    category = np.concatenate([units.category_NU[rater] for rater in raters])
    response = np.tile(units.response_U, len(category) // units.count)[category >= 0]
    cells, times = np.unique(category[category >= 0] * units.responses + response, return_counts=True)
    category, response = np.divmod(cells, units.responses)
    starts = np.flatnonzero(np.diff(category, prepend=-1))
    counts_BC = np.zeros((len(weights_BR), len(units.ratings_C)))
    counts_BC[:, category[starts]] = np.add.reduceat(weights_BR[:, response] * times, starts, axis=1)
    return counts_BC


def _ratio(above_B: Array, below_B: Array) -> Array:
    ratio_B = np.full_like(above_B, np.nan)
    np.divide(above_B, below_B, out=ratio_B, where=below_B != 0)
    return ratio_B


_BLOCK = 4_000_000
"""Weights in memory at a time: 32 MB."""


class Agreement(BaseModel):
    """Coefficients of two raters over the units that both rated; None for an undefined coefficient.

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
