"""Which rollouts, and which prompts, are worth an update.

Rollouts: more are drawn than are trained on, and a part is kept (RubricRL, section 3.4 and table 5). Advantages are
then taken over the kept ones. Prompts: one whose rollouts all pass or all fail teaches nothing (DAPO, section 3.2).
"""

import math
import random
import statistics
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

Strategy = Literal["hybrid", "ffkc_1d", "vanilla"]
"""The best and random others; a spread of rewards (farthest first, Gonzalez 1985); the first ones drawn."""


def select_rollouts(
    rewards_G: Tensor | Sequence[float | None],
    keep: int,
    strategy: Strategy = "hybrid",
    *,
    top: int | None = None,
    seed: int = 0,
) -> list[int]:
    """Places of the `keep` rollouts of one prompt that are trained on, in the order in which they were chosen.

    `hybrid` takes the `top` highest rewards, the highest first, and draws the rest from the others. `ffkc_1d` starts
    with the reward nearest the median and adds, time and again, the one farthest from all that are chosen. `vanilla`
    looks at no reward. Of equals the one drawn first is taken.

    Args:
        rewards_G: one reward per rollout, None or NaN where it could not be judged. Such a rollout is chosen only when
            fewer than `keep` were judged, so that a batch keeps its shape; its advantage is 0.
        keep: how many are kept, from 1 to G.
        top: how many of them `hybrid` takes by reward, from 0 to `keep`; None means keep // 2, and `keep` is Best-of-N.
        seed: of `hybrid`'s draw. Give each prompt and step its own.
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
    for place, reward in enumerate(rewards):
        if math.isinf(reward):
            raise ValueError(f"reward of rollout {place} is infinite")
    judged = {place: reward for place, reward in enumerate(rewards) if not math.isnan(reward)}
    wanted = min(keep, len(judged))
    if strategy == "hybrid":
        chosen = _best_and_others(judged, wanted, min(top, wanted), seed)
    elif strategy == "ffkc_1d":
        chosen = _farthest_first(judged, wanted)
    elif strategy == "vanilla":
        chosen = list(judged)[:wanted]
    else:
        raise ValueError(f"strategy is {strategy!r}; choose hybrid, ffkc_1d or vanilla")
    unjudged = [place for place in range(len(rewards)) if place not in judged]
    return chosen + unjudged[: keep - wanted]


def keep_prompt(passes_G: Tensor | Sequence[bool | None]) -> bool:
    """Whether some rollouts of a prompt pass and some fail; those that could not be judged (None, NaN) do not count.

    Raises:
        ValueError: an entry is neither a pass (True, 1) nor a failure (False, 0).
    """
    judged = [mark for mark in _values(passes_G) if mark is not None and not math.isnan(mark)]
    for mark in judged:
        if mark not in (0, 1):
            raise ValueError(f"{mark} is neither a pass nor a failure; give True or False for each rollout")
    return any(judged) and not all(judged)


def _values(values_G: Tensor | Sequence[float | None]) -> Sequence[float | None]:
    if isinstance(values_G, Tensor):
        if values_G.ndim != 1:
            raise ValueError(f"rollouts of shape {tuple(values_G.shape)}; give those of one prompt")
        listed: list[float] = values_G.tolist()
        return listed
    return values_G


def _best_and_others(judged: dict[int, float], keep: int, top: int, seed: int) -> list[int]:
    best_first = sorted(judged, key=lambda place: -judged[place])
    others = sorted(best_first[top:])
    return best_first[:top] + random.Random(seed).sample(others, keep - top)


def _farthest_first(judged: dict[int, float], keep: int) -> list[int]:
    if not keep:
        return []
    middle = (statistics.median_low(judged.values()), statistics.median_high(judged.values()))
    chosen = [next(place for place, reward in judged.items() if reward in middle)]
    left = [place for place in judged if place != chosen[0]]
    while len(chosen) < keep:
        gaps = [min(abs(judged[place] - judged[other]) for other in chosen) for place in left]
        chosen.append(left.pop(gaps.index(max(gaps))))
    return chosen
