"""The rewards of one group of responses to one sample, from their scorecards' credits (RLR³, section 4.3)."""

from collections.abc import Sequence

from rubricworks.rewards.hierarchical import hierarchical_reward
from rubricworks.rewards.remapping import remap_group
from rubricworks.rewards.weighted import weighted_reward


def group_rewards(
    credits_NK: Sequence[Sequence[float | None]],
    weights_K: Sequence[float],
    *,
    essential: Sequence[bool],
    valid: Sequence[bool] | None = None,
    remap: bool = True,
    gate: bool = True,
    threshold: float = 0.5,
) -> list[float | None]:
    """One reward per response: each criterion remapped over the group, then aggregated with essential criteria first.

    Args:
        credits_NK: of each of the N responses, one credit per criterion; None where it could not be judged.
        valid: whether each response keeps its format and its length; an invalid one earns 0, yet counts in its group's
            remapping, because its criteria were met or not.
        remap, gate: without them, the plain weighted share: for ablations.
    Raises:
        ValueError: lengths that do not fit, or a credit or weight out of range.
    """
    valid_N = [True] * len(credits_NK) if valid is None else list(valid)
    if len(valid_N) != len(credits_NK):
        raise ValueError(f"valid has {len(valid_N)} entries for {len(credits_NK)} responses; give one per response")
    for row in credits_NK:
        if len(row) != len(weights_K):
            raise ValueError(f"a response has {len(row)} credits for {len(weights_K)} weights; give one per criterion")
    scores_NK: list[list[float | None]] = [list(row) for row in credits_NK]
    if remap:
        columns = [remap_group([row[at] for row in credits_NK], threshold) for at in range(len(weights_K))]
        scores_NK = [list(row) for row in zip(*columns, strict=True)]
    if gate:
        return [
            hierarchical_reward(scores, weights_K, essential=essential, valid=one)
            for scores, one in zip(scores_NK, valid_N, strict=True)
        ]
    rewards = [weighted_reward(scores, weights_K) for scores in scores_NK]
    return [reward if one or reward is None else 0.0 for reward, one in zip(rewards, valid_N, strict=True)]
