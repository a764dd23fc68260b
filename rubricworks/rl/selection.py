"""Selection of rollouts and prompts to train on.

Rollouts: a subset of the sampled rollouts is trained on, and advantages are computed over the subset (RubricRL,
section 3.4 and table 5). Prompts: one whose rollouts all pass or all fail gives no signal (DAPO, section 3.2).
"""

import math
import random
import statistics
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

Strategy = Literal["hybrid", "ffkc_1d", "vanilla"]
"""The best and random others; diverse rewards (farthest first, Gonzalez 1985); the first ones sampled."""


def select_rollouts(
    rewards_G: Tensor | Sequence[float | None],
    keep: int,
    strategy: Strategy = "hybrid",
    *,
    top: int | None = None,
    seed: int = 0,
) -> list[int]:
    """Select `keep` rollouts of one prompt; returns their indices in order of selection.

    `hybrid` selects the `top` highest rewards, highest first, and samples the rest from the others. `ffkc_1d` starts
    with the reward nearest the median and repeatedly adds the one farthest from all selected. `vanilla` ignores the
    rewards. Ties go to the rollout sampled first.

    Args:
        rewards_G: one reward per rollout, None or NaN where it could not be judged. Such a rollout is selected only if
            fewer than `keep` were judged, so that a batch keeps its shape; its advantage is 0.
        keep: number of rollouts to select, from 1 to G.
        strategy: hybrid, ffkc_1d or vanilla.
        top: number of rollouts that `hybrid` selects by reward, from 0 to `keep`. None means keep // 2; `top=keep` is
            Best-of-N.
        seed: seed of `hybrid`'s sampling; use a different one for each prompt and step.
    Raises:
        ValueError: keep or top is out of range, the strategy is unknown, or a reward is infinite.
    """
    rewards = [math.nan if reward is None else float(reward) for reward in _values(rewards_G)]
    if not 1 <= keep <= len(rewards):
        raise ValueError(f"keep is {keep}; of {len(rewards)} rollouts 1 to {len(rewards)} can be kept")
    if top is None:
        top = keep // 2
    if not 0 <= top <= keep:
        raise ValueError(f"top is {top}; it lies between 0 and keep, {keep}")
    for index, reward in enumerate(rewards):
        if math.isinf(reward):
            raise ValueError(f"reward of rollout {index} is infinite")
    judged = {index: reward for index, reward in enumerate(rewards) if not math.isnan(reward)}
    count = min(keep, len(judged))
    if strategy == "hybrid":
        selected = _best_and_random(judged, count, min(top, count), seed)
    elif strategy == "ffkc_1d":
        selected = _farthest_first(judged, count)
    elif strategy == "vanilla":
        selected = list(judged)[:count]
    else:
        raise ValueError(f"strategy is {strategy!r}; choose hybrid, ffkc_1d or vanilla")
    unjudged = [index for index in range(len(rewards)) if index not in judged]
    return selected + unjudged[: keep - count]


def keep_prompt(passes_G: Tensor | Sequence[bool | None]) -> bool:
    """Return True if some rollouts of a prompt pass and some fail, ignoring unjudged ones (None, NaN).

    Raises:
        ValueError: an entry is neither a pass (True, 1) nor a failure (False, 0).
    """
    judged = [outcome for outcome in _values(passes_G) if outcome is not None and not math.isnan(outcome)]
    for outcome in judged:
        if outcome not in (0, 1):
            raise ValueError(f"{outcome} is neither a pass nor a failure; give True or False for each rollout")
    return any(judged) and not all(judged)


def _values(values_G: Tensor | Sequence[float | None]) -> Sequence[float | None]:
    if isinstance(values_G, Tensor):
        if values_G.ndim != 1:
            raise ValueError(f"rollouts of shape {tuple(values_G.shape)}; give those of one prompt")
        values: list[float] = values_G.tolist()
        return values
    return values_G


def _best_and_random(judged: dict[int, float], keep: int, top: int, seed: int) -> list[int]:
    best_first = sorted(judged, key=lambda index: -judged[index])
    rest = sorted(best_first[top:])
    return best_first[:top] + random.Random(seed).sample(rest, keep - top)


def _farthest_first(judged: dict[int, float], keep: int) -> list[int]:
    if not keep:
        return []
    middle = (statistics.median_low(judged.values()), statistics.median_high(judged.values()))
    selected = [next(index for index, reward in judged.items() if reward in middle)]
    remaining = [index for index in judged if index != selected[0]]
    while len(selected) < keep:
        gaps = [min(abs(judged[index] - judged[previous]) for previous in selected) for index in remaining]
        selected.append(remaining.pop(gaps.index(max(gaps))))
    return selected
