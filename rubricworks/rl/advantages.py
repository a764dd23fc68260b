"""Group-relative advantages: the reward of a rollout compared with those of its group.

Rows are ordered group by group. NaN marks a rollout that could not be judged: it is excluded from the statistics and
gets advantage 0. Source: GRPO (DeepSeekMath, eq. 3); standard deviations use ddof = 1 and eps is added, as in TRL.
"""

from typing import Literal

from torch import Tensor

Scale = Literal["group", "batch", "none"]
"""Divide by the standard deviation of the group, of the whole batch, or not at all (Dr. GRPO)."""


def group_advantages(rewards_N: Tensor, group_size: int, *, scale: Scale = "group", eps: float = 1e-4) -> Tensor:
    """Compute the advantages of N rollouts, shape [N].

    Args:
        rewards_N: one reward per rollout, NaN where it could not be judged.
        group_size: rollouts per sample, at least 2; N must be a multiple of it.
        scale: divisor of the centred rewards.
        eps: added to the standard deviation.
    Raises:
        ValueError: group_size < 2, N is not a multiple of it, or rewards_N is not a vector.
    """
    if group_size < 2:
        raise ValueError(f"group_size is {group_size}; a group needs at least 2 rollouts")
    if rewards_N.ndim != 1 or rewards_N.shape[0] % group_size:
        raise ValueError(f"rewards of shape {tuple(rewards_N.shape)} do not divide into groups of {group_size}")
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale is {scale!r}; choose group, batch or none")
    if not rewards_N.numel():
        return rewards_N.clone()
    rewards_PG = rewards_N.view(-1, group_size)
    centred_PG = rewards_PG - rewards_PG.nanmean(dim=1, keepdim=True)
    if scale == "group":
        centred_PG = centred_PG / (nanstd(rewards_PG) + eps)
    elif scale == "batch":
        centred_PG = centred_PG / (nanstd(rewards_N.view(1, -1)) + eps)
    return centred_PG.nan_to_num(nan=0.0).view(-1)


def nanstd(rows: Tensor) -> Tensor:
    """Standard deviation along dim 1, ignoring NaN (ddof = 1); 0 with fewer than two numbers."""
    count = (~rows.isnan()).sum(dim=1, keepdim=True)
    squares = (rows - rows.nanmean(dim=1, keepdim=True)).square().nansum(dim=1, keepdim=True)
    return (squares / (count - 1).clamp(min=1)).sqrt()
