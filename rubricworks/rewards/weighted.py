"""Weighted mean of a response's credits (RubiCap, section 3.3), also with negative weights: a met pitfall takes away
(HealthBench's score of one response).
"""

import math
from collections.abc import Sequence


def weighted_reward(credits: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Compute G = sum(w * y) / sum(w), in [0, 1]; None if any criterion could not be judged.

    Args:
        credits: one credit in [0, 1] per criterion; None (or NaN) where the judge failed.
        weights: one positive, finite weight per criterion.
    Raises:
        ValueError: no criteria, lengths differ, a weight is not positive, or a credit lies outside [0, 1].
    """
    for weight in weights:
        if not (weight > 0 and math.isfinite(weight)):
            raise ValueError(f"weight {weight} is not a positive number")
    judged = judged_credits(credits, weights)
    if judged is None:
        return None
    return math.fsum(w * y for w, y in zip(weights, judged, strict=True)) / math.fsum(weights)


def judged_credits(credits: Sequence[float | None], weights: Sequence[float]) -> list[float] | None:
    """Return the credits of a scorecard; None if any is missing.

    Raises:
        ValueError: no criteria, lengths differ, or a credit lies outside [0, 1].
    """
    if len(credits) != len(weights):
        raise ValueError(f"{len(credits)} credits for {len(weights)} weights; give one of each per criterion")
    if not weights:
        raise ValueError("a rubric without criteria has no reward")
    judged: list[float] = []
    for credit in credits:
        if credit is None or math.isnan(credit):
            continue
        if not 0 <= credit <= 1:
            raise ValueError(f"credit {credit} is outside [0, 1]")
        judged.append(credit)
    return judged if len(judged) == len(credits) else None


def signed_reward(credits: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Compute clip(sum(w * y) / sum of the positive w, 0, 1); None if any criterion could not be judged.

    Where every weight is positive, this is `weighted_reward`.

    Args:
        credits: one credit in [0, 1] per criterion; None (or NaN) where the judge failed.
        weights: one finite weight per criterion, negative for a pitfall, at least one of them positive.
    Raises:
        ValueError: lengths differ, no weight is positive, a weight is 0 or not finite, or a credit is outside [0, 1].
    """
    if all(weight > 0 for weight in weights):
        return weighted_reward(credits, weights)
    for weight in weights:
        if not weight or not math.isfinite(weight):
            raise ValueError(f"weight {weight} is not a number other than 0")
    positive = math.fsum(weight for weight in weights if weight > 0)
    if not positive:
        raise ValueError("no weight is positive, so that nothing can be earned; add a criterion with a positive weight")
    judged = judged_credits(credits, weights)
    if judged is None:
        return None
    return min(max(math.fsum(w * y for w, y in zip(weights, judged, strict=True)) / positive, 0.0), 1.0)
