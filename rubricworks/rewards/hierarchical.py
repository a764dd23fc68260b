"""Hierarchical reward: the weighted mean, gated by essential criteria (RLR3, section 4.3.2, equation 4).

The paper's base reward is the weighted sum; ours is divided by the sum of the weights, so that it lies in [0, 1] and
does not scale with a rubric's length.

Remapping of one criterion's scores within their group (RLR3, section 4.3.1, equations 2 and 3).

Verifier scores lie close together: an edit similarity is above 0.9 with one mistake and with ten. Within a group they
are stretched over [l, u], whose ends preserve the level of the group: l = 0 only if a score is below the threshold
(failed), u = 1 only if a score is above it (passed).
"""

import math
from collections.abc import Sequence

from rubricworks.rewards.weighted import weighted_reward


def hierarchical_reward(
    remapped: Sequence[float | None], weights: Sequence[float], *, essential: Sequence[bool], valid: bool = True
) -> float | None:
    """Compute sum(w * s) / sum(w), or 0 if a gate closes. None if any criterion could not be judged, even if a gate
    closes.

    The reward is 0 if at least one essential criterion failed (below 0.5), if at least two are partly met (0.5 or
    more, below 1), or if the response is not valid.

    Args:
        remapped: one score in [0, 1] per criterion, from `remap_group`; None (or NaN) where the judge failed.
        weights: one positive, finite weight per criterion.
        essential: True for an essential criterion, False for an additional one.
        valid: True if the response is within format (no repetition loop, no mixed languages) and length.
    Raises:
        ValueError: no criteria, lengths differ, a weight is not positive, or a score lies outside [0, 1].
    """
    if len(essential) != len(weights):
        raise ValueError(f"essential has {len(essential)} entries for {len(weights)} weights; give one per criterion")
    if any(weight < 0 for weight in weights):
        raise ValueError("a negative weight takes away, and the essential gate knows no pitfalls; use signed_reward")
    reward = weighted_reward(remapped, weights)
    if reward is None:
        return None
    scores = [score for score, gating in zip(remapped, essential, strict=True) if gating and score is not None]
    failed = sum(score < 0.5 for score in scores)
    partly_met = sum(0.5 <= score < 1 for score in scores)
    return reward if valid and not failed and partly_met < 2 else 0.0


_DECIMALS = 12
"""Rounding: (0.5 - 0.2) / (0.8 - 0.2) is 0.49999999999999994, which would fail an essential criterion."""


def remap_group(scores: Sequence[float | None], threshold: float = 0.5) -> list[float | None]:
    """Remap the scores of one criterion over the responses of one group.

    Args:
        scores: one score in [0, 1] per response. None (or NaN) where it could not be judged: it stays None and does not
            affect the others.
        threshold: tau of the paper, between 0 and 1.
    Raises:
        ValueError: a score or the threshold lies outside [0, 1].
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold is {threshold}; it lies between 0 and 1")
    judged = [score for score in scores if score is not None and not math.isnan(score)]
    for score in judged:
        if not 0 <= score <= 1:
            raise ValueError(f"score {score} is outside [0, 1]")
    if not judged:
        return [None] * len(scores)
    lowest, highest = min(judged), max(judged)
    lower = 0.0 if lowest < threshold else 0.5
    upper = 1.0 if highest > threshold else 0.5

    def remapped(score: float) -> float:
        if lowest == highest:
            return upper if highest > threshold else lower
        return round((score - lowest) / (highest - lowest) * (upper - lower) + lower, _DECIMALS)

    return [None if score is None or math.isnan(score) else remapped(score) for score in scores]
