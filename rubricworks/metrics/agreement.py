"""How far raters agree: accuracy, Cohen's kappa, Krippendorff's alpha, and how sure these are.

A rating is a number, None where there is none. Accuracy, kappa and nominal alpha ask whether two ratings are exactly
equal; interval alpha squares their distance, so that 0.5 for 1 is a quarter of the disagreement of 0 for 1. Between
zeros and ones the two alphas are the same.

None is the value of a number that is not defined: nothing was rated twice; or every rating is the same one, when what
chance would give is already all there is to agree on (0/0). It is never written as 0 or 1.

Sources: Cohen, A Coefficient of Agreement for Nominal Scales (1960); Krippendorff, Computing Krippendorff's
Alpha-Reliability (2011); the bootstrap of clusters: Davison and Hinkley, Bootstrap Methods (1997), section 3.8.
"""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from rubricworks.metrics.matched import Array, Level, Matched, Number, Rating, alpha, equal_share, kappa, match

_BLOCK = 4_000_000
"""Weights held at a time: 32 MB."""


class Estimate(BaseModel):
    """A number and the range that holds it at the asked level.

    The bounds are missing where resampling says nothing of them: there is one response alone, or more than
    1 - level of the resamples leave the number undefined (nearly every rating is the same one).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float | None = None
    high: float | None = None


class Agreement(BaseModel):
    """Two raters on what both rated; None where a number is not defined."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    units: int
    """What both rated: verdicts, when the raters are judges."""
    responses: int
    """The independent pieces that the units belong to."""
    accuracy: Estimate | None
    kappa: Estimate | None
    alpha_nominal: Estimate | None
    alpha_interval: Estimate | None


def accuracy(first: Sequence[Rating], second: Sequence[Rating]) -> float | None:
    """Share of equal ratings among the units that both rated; None if there is no such unit."""
    return _value(equal_share, match([first, second]))


def cohen_kappa(first: Sequence[Rating], second: Sequence[Rating]) -> float | None:
    """Agreement of two raters beyond chance, each with their own habits; None if both gave one and the same rating."""
    return _value(kappa, match([first, second]))


def krippendorff_alpha(ratings: Sequence[Sequence[Rating]], *, level: Level = "nominal") -> float | None:
    """Agreement of any number of raters beyond chance; what only one of them rated does not count.

    Args:
        ratings: one sequence per rater, over the same units in the same order; None where a rater said nothing.
    Returns:
        1 for agreement throughout, 0 for what chance would give, below 0 for less; None if all ratings are equal.
    """
    return _value(alpha(level), match(ratings))


def confusion(first: Sequence[Rating], second: Sequence[Rating]) -> dict[tuple[float, float], int]:
    """How often each pair of ratings occurs, (first's, second's), in order; pairs that never occur are not in it."""
    pairs = Counter(zip(*match([first, second]).ratings_NU.tolist(), strict=True))
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
    """Two raters with percentile bootstrap intervals, the same for the same seed.

    Args:
        responses: which response each unit belongs to. Responses are resampled whole: the criteria of one response are
            answered together and err together, so single verdicts would make the intervals too narrow.
    Raises:
        ValueError: the lengths differ, or level or resamples is out of range.
    """
    matched = match([first, second], responses)
    numbers = [equal_share, kappa, alpha("nominal"), alpha("interval")]
    found = _estimates(numbers, matched, level=level, resamples=resamples, seed=seed)
    names = ("accuracy", "kappa", "alpha_nominal", "alpha_interval")
    return Agreement(units=matched.units, responses=matched.responses, **dict(zip(names, found, strict=True)))


def alpha_estimate(
    ratings: Sequence[Sequence[Rating]],
    responses: Sequence[Hashable],
    *,
    scale: Level = "nominal",
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Estimate | None:
    """`krippendorff_alpha` of any number of raters, with an interval as in `pair_agreement`."""
    matched = match(ratings, responses)
    return _estimates([alpha(scale)], matched, level=level, resamples=resamples, seed=seed)[0]


def _estimates(
    numbers: Sequence[Number], matched: Matched, *, level: float, resamples: int, seed: int
) -> list[Estimate | None]:
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; it lies between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples is {resamples}; at least 1 is drawn")
    values = [_value(number, matched) for number in numbers]
    if matched.responses < 2:
        return [None if value is None else Estimate(value=value) for value in values]
    drawn = np.empty((len(numbers), resamples))
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // (matched.units + matched.responses))
    for start in range(0, resamples, rows):
        weights_BR = _draw(generator, min(rows, resamples - start), matched.responses)
        for number, into in zip(numbers, drawn, strict=True):
            into[start : start + rows] = number(matched, weights_BR)
    return [None if value is None else _bounded(value, row, level) for value, row in zip(values, drawn, strict=True)]


def _bounded(value: float, drawn: Array, level: float) -> Estimate:
    defined = drawn[~np.isnan(drawn)]
    if defined.size < level * drawn.size:
        return Estimate(value=value)
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value=value, low=float(low), high=float(high))


def _draw(generator: np.random.Generator, times: int, responses: int) -> Array:
    """How often each response is drawn, in each of so many samples with replacement."""
    drawn = generator.integers(0, responses, size=(times, responses))
    drawn += np.arange(times)[:, None] * responses
    return np.bincount(drawn.ravel(), minlength=times * responses).reshape(times, responses).astype(float)


def _value(number: Number, matched: Matched) -> float | None:
    if not matched.units:
        return None
    value = float(number(matched, np.ones((1, matched.responses)))[0])
    return None if np.isnan(value) else value
