"""Agreement coefficients as sums over responses, each with a weight of its own.

A sample gives every response weight 1; a bootstrap resample weighs a response by the times that it draws it. Both take
the same path, so that an interval belongs to exactly the coefficient that it stands beside. `agreement` defines the
coefficients.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
