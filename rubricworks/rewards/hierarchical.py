"""Essential criteria first: the weighted share, unless an essential one failed (RLR3, section 4.3.2, equation 4).

The paper's base reward is the weighted sum; ours is divided by the sum of the weights, so that it lies in [0, 1] and a
rubric's length does not scale it.
"""

from collections.abc import Sequence

from rubricworks.rewards.weighted import weighted_reward


def hierarchical_reward(
    remapped: Sequence[float | None], weights: Sequence[float], *, essential: Sequence[bool], valid: bool = True
) -> float | None:
    """sum(w * s) / sum(w), or 0 where a gate closes; None if any criterion could not be judged, whatever else holds.

    The reward is 0 if at least one essential criterion failed (below 0.5), if at least two are only partly met (0.5 or
    more, below 1), or if the response is not valid.

    Args:
        remapped: one score in [0, 1] per criterion, as `remap_group` gives them; None (or NaN) where the judge failed.
        weights: one positive, finite weight per criterion.
        essential: whether each criterion is essential; the others are additional.
        valid: whether the response keeps its format (no repetition loop, no mixed languages) and its length.
    Raises:
        ValueError: no criteria, lengths differ, a weight is not positive, or a score lies outside [0, 1].
    """
    if len(essential) != len(weights):
        raise ValueError(f"essential has {len(essential)} entries for {len(weights)} weights; give one per criterion")
    reward = weighted_reward(remapped, weights)
    if reward is None:
        return None
    decisive = [score for score, must in zip(remapped, essential, strict=True) if must and score is not None]
    failed = sum(score < 0.5 for score in decisive)
    partly_met = sum(0.5 <= score < 1 for score in decisive)
    return reward if valid and not failed and partly_met < 2 else 0.0
