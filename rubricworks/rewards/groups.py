"""Rewards of one group of responses to one sample, from their scorecards' credits (RLR³, section 4.3)."""

from collections.abc import Sequence

from rubricworks.rewards.hierarchical import hierarchical_reward, remap_group
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
    """Compute one reward per response: remap each criterion over the group, then aggregate with the essential gate.

    Args:
        credits_NK: one credit per criterion for each of the N responses; None where it could not be judged.
        weights_K: one weight per criterion.
        essential: True for an essential criterion, per criterion.
        valid: True for a response within format and length, per response. An invalid one gets reward 0, but its credits
            still count in the remapping of its group.
        remap: remap each criterion over the group; False is an ablation.
        gate: apply the essential gate; False gives the weighted mean, an ablation.
        threshold: tau of `remap_group`.
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
        columns = [remap_group([row[column] for row in credits_NK], threshold) for column in range(len(weights_K))]
        scores_NK = [list(row) for row in zip(*columns, strict=True)]
    if gate:
        return [
            hierarchical_reward(scores, weights_K, essential=essential, valid=is_valid)
            for scores, is_valid in zip(scores_NK, valid_N, strict=True)
        ]
    rewards = [weighted_reward(scores, weights_K) for scores in scores_NK]
    return [reward if is_valid or reward is None else 0.0 for reward, is_valid in zip(rewards, valid_N, strict=True)]
