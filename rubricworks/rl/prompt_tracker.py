"""Advantages within each prompt, as DiffusionNFT's tracker computes them (NVlabs/DiffusionNFT, `stat_tracking.py`).

Standard deviations are the population's (ddof = 0), unlike those of `group_advantages`; a prompt's rollouts need not be
adjacent. NaN marks a rollout that could not be judged: it is excluded from the statistics and gets advantage 0.
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor


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
