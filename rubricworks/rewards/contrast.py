"""Criterion weights by contrast: what separates the rollouts of a group counts for more, by POW3R's factors.

POW3R (Tyagi et al., arXiv:2605.20164) multiplies each weight of the rubric by a factor: the variance of the criterion
over the group's verdicts, divided by the weighted mean variance of its category, mixed with 1 by lambda and clipped; a
criterion with verdicts for less than three quarters of the group keeps the factor it has. This follows a published
summary ("Papers Explained 579"), as the paper's own text was not at hand; the summary states neither lambda nor the
bounds, so the defaults are this project's.

Two things differ. The paper's factors are moving averages that act from the next epoch on; here they are of the group
that they reward, without a state, so that they also act in a training of one epoch, and a criterion with too few
verdicts has the factor 1. The paper's categories are the rubric's own; here they are two, by the sign of the weight, so
that what can be earned and what pitfalls can take away both stay as they are, and with them the scale of the reward.

A criterion that all rollouts meet, or all miss, adds the same to each, so that no advantage depends on its weight as
such. What changes is how much each criterion that does separate counts beside the others, and, where advantages are not
divided by the group's deviation, how far apart the group's rewards lie.
"""

import math
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

_JUDGED_SHARE = 0.75
"""Share of a group's verdicts below which a criterion's contrast is unknown (POW3R)."""


class Contrast(BaseModel):
    """How far a group's contrast moves the rubric's own weights."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    strength: float = Field(default=0.5, gt=0, lt=1)
    """POW3R's lambda: the share of a factor that is contrast. A criterion without any has the factor 1 - strength."""
    ceiling: float = Field(default=4.0, ge=1)
    """Largest factor. What it cuts off goes to all criteria of the same sign, in proportion."""


def contrast_weights(
    credits_GK: Sequence[Sequence[float | None]],
    weights_K: Sequence[float],
    contrast: Contrast = Contrast(),  # noqa: B008 - frozen
) -> list[float]:
    """Weights of the K criteria for one group; those of each sign add up to what they did before.

    Where no criterion of a sign separates the group, those weights stay as they are.

    Args:
        credits_GK: one credit per criterion for each of the group's G rollouts; None where the judge failed, which
            counts for no rollout of that criterion.
        weights_K: the rubric's own weights, negative for pitfalls.
    Raises:
        ValueError: fewer than two rollouts, or a rollout has not one credit per criterion.
    """
    if len(credits_GK) < 2:
        raise ValueError(f"{len(credits_GK)} rollout(s) show no contrast; a group needs at least 2")
    for credits in credits_GK:
        if len(credits) != len(weights_K):
            raise ValueError(f"{len(credits)} credits for {len(weights_K)} weights; give one of each per criterion")
    variances_K = [_variance([credits[column] for credits in credits_GK]) for column in range(len(weights_K))]
    factors_K = [1.0] * len(weights_K)
    for positive in (True, False):
        columns = [column for column, weight in enumerate(weights_K) if (weight > 0) == positive]
        _set_factors(factors_K, columns, weights_K, variances_K, contrast)
    return [weight * factor for weight, factor in zip(weights_K, factors_K, strict=True)]


def _set_factors(
    factors_K: list[float],
    columns: Sequence[int],
    weights_K: Sequence[float],
    variances_K: Sequence[float | None],
    contrast: Contrast,
) -> None:
    """Set the factors of the criteria of one sign."""
    known = {column: variance for column in columns if (variance := variances_K[column]) is not None}
    mean = _mean(known, weights_K)
    if not mean:
        return
    for column, variance in known.items():
        factor = 1 - contrast.strength + contrast.strength * variance / mean
        factors_K[column] = min(factor, contrast.ceiling)
    mean_factor = _mean({column: factors_K[column] for column in columns}, weights_K)
    for column in columns:
        factors_K[column] /= mean_factor


def _mean(values: dict[int, float], weights_K: Sequence[float]) -> float:
    """Mean of some criteria's values by their weights; 0 of none."""
    total = math.fsum(weights_K[column] for column in values)
    return math.fsum(weights_K[column] * value for column, value in values.items()) / total if total else 0.0


def _variance(credits_G: Sequence[float | None]) -> float | None:
    """Population variance of the judged credits; None if too few are."""
    judged = [credit for credit in credits_G if credit is not None and not math.isnan(credit)]
    if len(judged) < max(_JUDGED_SHARE * len(credits_G), 2):
        return None
    mean = math.fsum(judged) / len(judged)
    return math.fsum((credit - mean) ** 2 for credit in judged) / len(judged)
