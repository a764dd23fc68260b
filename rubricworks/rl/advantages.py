"""Group-relative advantages: the reward of a rollout compared with those of its group.

Rows are ordered group by group. NaN marks a rollout that could not be judged: it is excluded from the statistics and
gets advantage 0. Source: GRPO (DeepSeekMath, eq. 3); standard deviations use ddof = 1 and eps is added, as in TRL.

Decoupled advantages: each reward is normalised within its group before the rewards are summed.

If they were summed first, rewards with a large spread would dominate, and rollouts with equal sums could not be told
apart. Source: GDPO, used on continuous rewards as c-GDPO by BalCapRL (2.4-2.6). Standard deviations use ddof = 1 and
eps is added, as in GDPO's code and TRL's `normalize_then_sum`. Two differences from TRL:

- A rollout with any missing reward is masked. TRL sums the remaining rewards, which turns a judge failure into a score.
- If the rollouts of a batch do not differ, because each reward is constant or they cancel, advantages are 0. TRL
  divides the rounding errors by their own deviation.

Advantages within each prompt, as DiffusionNFT's tracker computes them (NVlabs/DiffusionNFT, `stat_tracking.py`).

Standard deviations are the population's (ddof = 0), unlike those of `group_advantages`; a prompt's rollouts need not be
adjacent. NaN marks a rollout that could not be judged: it is excluded from the statistics and gets advantage 0.
"""

from collections.abc import Hashable, Sequence
from typing import Literal

import torch
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


_ROUNDING = 4
"""A sum within this many times the resolution of its terms is a rounding error."""


def decoupled_advantages(
    rewards_NK: Tensor, weights_K: Tensor | Sequence[float], group_size: int, *, eps: float = 1e-4
) -> Tensor:
    """Compute the advantages of N rollouts from K rewards, shape [N].

    A rollout that could not be judged is excluded from the statistics of its group and of the batch, and gets
    advantage 0. The only judged rollout of a group scores 0 in each reward.

    Args:
        rewards_NK: K rewards per rollout, rows ordered group by group; NaN for a reward that could not be judged.
        weights_K: one finite weight per reward, of any sign.
        group_size: rollouts per sample, at least 2; N must be a multiple of it.
        eps: added to each standard deviation.
    Raises:
        ValueError: group_size < 2, N is not a multiple of it, the shapes do not fit, a weight is not finite, or a
            reward is infinite.
    """
    if group_size < 2:
        raise ValueError(f"group_size is {group_size}; a group needs at least 2 rollouts")
    if rewards_NK.ndim != 2 or rewards_NK.shape[0] % group_size:
        raise ValueError(f"rewards of shape {tuple(rewards_NK.shape)} do not divide into groups of {group_size}")
    if not rewards_NK.is_floating_point():
        rewards_NK = rewards_NK.to(torch.get_default_dtype())
    weights_K = torch.as_tensor(weights_K, dtype=rewards_NK.dtype, device=rewards_NK.device)
    if weights_K.shape != rewards_NK.shape[1:] or not weights_K.numel():
        raise ValueError(f"weights of shape {tuple(weights_K.shape)} for rewards of shape {tuple(rewards_NK.shape)}")
    if not weights_K.isfinite().all():
        raise ValueError(f"weights are {weights_K.tolist()}; each must be a finite number")
    if rewards_NK.isinf().any():
        row, column = rewards_NK.isinf().nonzero()[0].tolist()
        raise ValueError(f"reward {column} of rollout {row} is infinite")
    if not rewards_NK.numel():
        return rewards_NK.new_zeros(0)

    missing_N = rewards_NK.isnan().any(dim=1)
    rewards_PGK = rewards_NK.masked_fill(missing_N[:, None], torch.nan).view(-1, group_size, len(weights_K))
    scores_PGK, resolution_P1K = _group_scores(rewards_PGK, eps)
    summed_N = (scores_PGK * weights_K).sum(dim=2).view(-1)
    rounding_P1 = (resolution_P1K * weights_K.abs()).sum(dim=2)
    if (summed_N.view(-1, group_size).abs() <= _ROUNDING * rounding_P1).all():
        return torch.zeros_like(summed_N)
    judged_1N = summed_N.masked_fill(missing_N, torch.nan).view(1, -1)
    advantages_1N = (judged_1N - judged_1N.nanmean()) / (nanstd(judged_1N) + eps)
    return advantages_1N.nan_to_num(nan=0.0).view(-1)


def _group_scores(rewards_PGK: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Standard scores of the rewards within their group (0 if missing), and the numerical resolution of the scores.

    The resolution of a mean is that of its largest term. A reward that is constant in a group has score 0 exactly.
    """
    missing_PGK = rewards_PGK.isnan()
    highest_P1K = rewards_PGK.masked_fill(missing_PGK, -torch.inf).amax(dim=1, keepdim=True)
    lowest_P1K = rewards_PGK.masked_fill(missing_PGK, torch.inf).amin(dim=1, keepdim=True)
    constant_P1K = highest_P1K <= lowest_P1K
    deviation_P1K = nanstd(rewards_PGK) + eps
    scores_PGK = (rewards_PGK - rewards_PGK.nanmean(dim=1, keepdim=True)) / deviation_P1K
    largest_P1K = torch.maximum(highest_P1K.abs(), lowest_P1K.abs())
    resolution_P1K = torch.finfo(rewards_PGK.dtype).eps * largest_P1K / deviation_P1K
    return scores_PGK.masked_fill(missing_PGK | constant_P1K, 0.0), resolution_P1K.masked_fill(constant_P1K, 0.0)


def prompt_advantages(
    rewards_N: Tensor, prompts: Sequence[Hashable], *, global_std: bool = False, eps: float = 1e-4
) -> Tensor:
    """Compute (reward - mean of its prompt) / (standard deviation + eps), shape [N].

    Args:
        rewards_N: one reward per rollout, NaN where it could not be judged.
        prompts: prompt of each rollout, or its name.
        global_std: divide by the deviation of all rewards instead of the prompt's own.
        eps: added to the standard deviation.
    Raises:
        ValueError: rewards_N is no vector, or there is not one prompt per reward.
    """
    if rewards_N.ndim != 1 or len(prompts) != len(rewards_N):
        raise ValueError(f"rewards of shape {tuple(rewards_N.shape)} for {len(prompts)} prompts; give one for each")
    rows: dict[Hashable, list[int]] = {}
    for row, prompt in enumerate(prompts):
        rows.setdefault(prompt, []).append(row)
    advantages_N = torch.zeros_like(rewards_N)
    of_all = _deviation(rewards_N)
    for index in rows.values():
        rewards = rewards_N[index]
        centred = rewards - rewards.nanmean()
        advantages_N[index] = centred / ((of_all if global_std else _deviation(rewards)) + eps)
    return advantages_N.nan_to_num(nan=0.0)


def _deviation(rewards: Tensor) -> Tensor:
    judged = rewards[~rewards.isnan()]
    return judged.std(correction=0) if len(judged) else rewards.new_zeros(())
