"""Rank correlations, of two lists of numbers and of models' mean scores with a given ranking.

Ties share the mean of their ranks (Spearman), or count for neither side (Kendall's tau-b). A correlation with a
constant list is not defined, and None.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rubricworks.metrics.intervals import Interval, percentile_interval

Numbers = NDArray[np.float64]
_DIGITS = 12
"""Digits of a mean that count, so that rounding errors break no tie."""


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Correlation of the ranks, in [-1, 1].

    Raises:
        ValueError: the lengths differ, or there are fewer than two pairs, or a number is not finite.
    """
    pairs = _pairs(a, b)
    return _number(_correlations(_ranks(pairs[:1]), _ranks(pairs[1:])))


def kendall_tau_b(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Concordant less discordant pairs, divided by the geometric mean of the pairs without a tie in a and in b.

    Raises:
        ValueError: as `spearman`.
    """
    first, second = (np.sign(row[:, None] - row) for row in _pairs(a, b))
    return _number(_correlations(first.reshape(1, -1), second.reshape(1, -1)))


def ranking_agreement(
    scores: Mapping[str, Sequence[float | None]],
    ranking: Mapping[str, float],
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Interval | None:
    """Spearman's correlation of models' mean scores with a ranking, bootstrapped over the samples.

    Args:
        scores: model → one score per sample, in the same order for every model; None or NaN could not be judged.
        ranking: model → its standing, higher is better: an Elo rating, or minus its rank.
    Returns:
        The correlation; without bounds where more than 1 - level of the resamples leave it undefined. None where it is
        undefined: all models' means are equal, or all their standings.
    Raises:
        ValueError: fewer than two models, other models in one than in the other, numbers of samples that differ, a
            model without a score, or a number that is not finite.
    """
    if len(scores) < 2 or scores.keys() != ranking.keys():
        raise ValueError(f"scores of {sorted(scores)}, a ranking of {sorted(ranking)}; give two or more models in both")
    if len({len(values) for values in scores.values()}) != 1:
        raise ValueError("every model needs a score, or None, for each sample")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"level is {level}, resamples {resamples}; between 0 and 1, and at least 1")
    values_MS = np.array(
        [[np.nan if score is None else score for score in scores[model]] for model in ranking], np.float64
    )
    present = ~np.isnan(values_MS)
    if not present.any(axis=1).all():
        raise ValueError(f"no score of {next(m for m, row in zip(ranking, present, strict=True) if not row.any())!r}")
    standings = np.array([[np.nan if rank is None else rank for rank in ranking.values()]], np.float64)
    if not np.isfinite(standings).all() or np.isinf(values_MS).any():
        raise ValueError("a standing or a score is not finite; leave a model without a standing out of both")
    standing = _ranks(standings)
    value = _number(_correlations(_ranks(_means(values_MS, np.ones((1, values_MS.shape[1])))), standing))
    if value is None:
        return None
    generator = np.random.default_rng(seed)
    size = values_MS.shape[1]
    counts = generator.multinomial(size, np.full(size, 1 / size), size=resamples).astype(np.float64)
    replicates = _correlations(_ranks(_means(values_MS, counts)), standing)
    return percentile_interval(value, replicates, level)


def _pairs(a: Sequence[float], b: Sequence[float]) -> Numbers:
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(f"{len(a)} and {len(b)} numbers; give two or more, and as many of one as of the other")
    pairs = np.array([a, b], np.float64)
    if not np.isfinite(pairs).all():
        raise ValueError("a number is missing or not finite; leave such pairs out")
    return pairs


def _means(values_MS: Numbers, counts_RS: Numbers) -> Numbers:
    """Means of M models in R resamples, given the counts of the samples; NaN where a resample has no score."""
    present = ~np.isnan(values_MS)
    with np.errstate(invalid="ignore"):
        means = (counts_RS @ np.where(present, values_MS, 0.0).T) / (counts_RS @ present.T)
    return np.round(means, _DIGITS)


def _ranks(rows: Numbers) -> Numbers:
    """Ranks within each row, ties averaged; a row with a missing value is all NaN."""
    columns = rows[:, :, None]
    ranks = (rows[:, None, :] < columns).sum(axis=2) + ((rows[:, None, :] == columns).sum(axis=2) + 1) / 2
    return np.where(np.isnan(rows).any(axis=1, keepdims=True), np.nan, ranks)


def _correlations(a: Numbers, b: Numbers) -> Numbers:
    """Pearson correlations, row by row."""
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    spread = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(spread > 0, (a * b).sum(axis=1) / spread, np.nan)


def _number(correlations: Numbers) -> float | None:
    value = float(correlations[0])
    return None if np.isnan(value) else value
