"""The numbers of agreement as sums over responses, each of which may count any number of times.

A sample counts every response once; a resample of the bootstrap counts it as often as it was drawn. Both go the same
way, so that an interval is of the very number that it stands beside. `agreement` says what the numbers mean.
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
class Matched:
    """The units that at least two raters rated, U of them by N raters, of R responses, with C different ratings."""

    ratings_NU: Array
    """NaN where there is none."""
    category_NU: NDArray[np.intp]
    """Number of the rating in `ratings_C`, -1 where there is none."""
    ratings_C: Array
    response_U: NDArray[np.intp]
    responses: int

    @property
    def units(self) -> int:
        return len(self.response_U)


Number = Callable[[Matched, Array], Array]
"""From how often each response counts, [B, R], to B numbers; NaN where the number is not defined."""


def match(ratings: Sequence[Sequence[Rating]], responses: Sequence[Hashable] | None = None) -> Matched:
    """The units that at least two raters rated.

    Args:
        responses: which response each unit belongs to; without, each unit is one of its own.
    Raises:
        ValueError: there is one rater alone, or the lengths differ.
    """
    lengths = [len(rater) for rater in ratings] + ([] if responses is None else [len(responses)])
    if len(ratings) < 2:
        raise ValueError(f"{len(ratings)} rater: agreement needs at least 2")
    if len(set(lengths)) > 1:
        raise ValueError(f"lengths differ: {', '.join(map(str, lengths))}; every rater has one place per unit")
    ratings_NU = np.array([[np.nan if rating is None else rating for rating in rater] for rater in ratings], float)
    there_NU = ~np.isnan(ratings_NU)
    kept = there_NU.sum(axis=0) >= 2
    ratings_NU, there_NU = ratings_NU[:, kept], there_NU[:, kept]
    ratings_C, numbers = np.unique(ratings_NU[there_NU], return_inverse=True)
    category_NU = np.full(ratings_NU.shape, -1)
    category_NU[there_NU] = numbers
    names: Iterable[Hashable] = range(kept.size) if responses is None else responses
    numbered: dict[Hashable, int] = {}
    response_U = [numbered.setdefault(name, len(numbered)) for name in itertools.compress(names, kept)]
    return Matched(ratings_NU, category_NU, ratings_C, np.array(response_U, np.intp), len(numbered))


def equal_share(matched: Matched, weights_BR: Array) -> Array:
    """Accuracy, of two raters."""
    equal_U = matched.category_NU[0] == matched.category_NU[1]
    return _total(matched, weights_BR, equal_U) / _total(matched, weights_BR, np.ones(matched.units))


def kappa(matched: Matched, weights_BR: Array) -> Array:
    """(p_o - p_e) / (1 - p_e) in Cohen's letters, times n squared: whole numbers, so that 0/0 is found exactly."""
    first_BC, second_BC = (_counts(matched, weights_BR, [rater]) for rater in (0, 1))
    n_B = first_BC.sum(axis=1)
    equal_B = _total(matched, weights_BR, matched.category_NU[0] == matched.category_NU[1])
    by_chance_B = (first_BC * second_BC).sum(axis=1)
    return _ratio(n_B * equal_B - by_chance_B, n_B**2 - by_chance_B)


def alpha(level: Level) -> Number:
    """1 - (n - 1) sum of o_ck d_ck / sum of n_c n_k d_ck, in Krippendorff's letters."""

    def number(matched: Matched, weights_BR: Array) -> Array:
        counts_BC = _counts(matched, weights_BR, range(len(matched.ratings_NU)))
        n_B = counts_BC.sum(axis=1)
        unlike_B = n_B**2 - (counts_BC**2).sum(axis=1)
        if level == "nominal":
            expected_B = unlike_B
        else:
            around_C = matched.ratings_C - matched.ratings_C.mean()  # near zero the difference keeps its digits
            expected_B = 2 * (n_B * (counts_BC @ around_C**2) - (counts_BC @ around_C) ** 2)
            expected_B[unlike_B == 0] = 0
        observed_B = _total(matched, weights_BR, _distances(matched, level))
        return 1 - _ratio((n_B - 1) * observed_B, expected_B)

    return number


def _distances(matched: Matched, level: Level) -> Array:
    """Per unit: the distances of all ordered pairs of its ratings, over one less than its ratings."""
    total_U = np.zeros(matched.units)
    for a, b in itertools.combinations(matched.ratings_NU, 2):
        total_U += np.nan_to_num((a - b) ** 2) if level == "interval" else (a != b) & ~np.isnan(a) & ~np.isnan(b)
    distance_U: Array = 2 * total_U / ((matched.category_NU >= 0).sum(axis=0) - 1)
    return distance_U


def _total(matched: Matched, weights_BR: Array, values_U: NDArray[np.generic]) -> Array:
    total_B: Array = weights_BR @ np.bincount(matched.response_U, weights=values_U, minlength=matched.responses)
    return total_B


def _counts(matched: Matched, weights_BR: Array, raters: Iterable[int]) -> Array:
    """How often the raters gave each rating, [B, C]: only what a response holds is added, so C may be large."""
    category = np.concatenate([matched.category_NU[rater] for rater in raters])
    response = np.tile(matched.response_U, len(category) // matched.units)[category >= 0]
    cells, times = np.unique(category[category >= 0] * matched.responses + response, return_counts=True)
    category, response = np.divmod(cells, matched.responses)
    starts = np.flatnonzero(np.diff(category, prepend=-1))
    counts_BC = np.zeros((len(weights_BR), len(matched.ratings_C)))
    counts_BC[:, category[starts]] = np.add.reduceat(weights_BR[:, response] * times, starts, axis=1)
    return counts_BC


def _ratio(above_B: Array, below_B: Array) -> Array:
    ratio_B = np.full_like(above_B, np.nan)
    np.divide(above_B, below_B, out=ratio_B, where=below_B != 0)
    return ratio_B
