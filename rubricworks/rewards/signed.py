"""Reward of a rubric with negative weights: a met pitfall takes away (HealthBench's score of one response)."""

import math
from collections.abc import Sequence

from rubricworks.rewards.weighted import judged_credits, weighted_reward


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
