"""Hierarchical reward: the weighted mean, gated by essential criteria (RLR3, section 4.3.2, equation 4).

The paper's base reward is the weighted sum; ours is divided by the sum of the weights, so that it lies in [0, 1] and
does not scale with a rubric's length.
"""

from collections.abc import Sequence

from rubricworks.rewards.weighted import weighted_reward


def hierarchical_reward(
    remapped: Sequence[float | None], weights: Sequence[float], *, essential: Sequence[bool], valid: bool = True
) -> float | None:
    """Compute sum(w * s) / sum(w), or 0 if a gate closes; None if any criterion could not be judged, in every case.

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
