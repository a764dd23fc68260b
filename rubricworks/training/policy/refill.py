"""Prompts without a signal give way to others before a step (DAPO, section 3.2; a peer in RubricRL's table 5).

A group whose rollouts all pass, all fail or all earn the same teaches nothing. It is dropped and another prompt is
drawn in its place, for a bounded number of rounds. Groups that are still missing then are not trained on. Every rollout
is logged. The prompts depend only on the seed and the step, so a resumed training draws the same ones.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from rubricworks.errors import UserError
from rubricworks.rl import keep_prompt

PASSES = "passes"
"""Column that a reward logs with TRL's `log_extra`: True, False, or None per rollout (`adapters.trl.RubricReward`)."""


_SAME = 1e-6
"""Rewards closer than this are one reward: sums of the same credits in another order differ as little."""


class Group(NamedTuple):
    """Rollouts of one prompt, generated and scored."""

    rows: list[dict[str, Any]]
    """TRL's rows, one per rollout."""
    generated: tuple[list[Any] | Mapping[str, Any] | None, ...]
    """Return value of TRL's `_generate` for them."""
    rewards_GK: Tensor
    first: int
    """Position of its first rollout among all that this process drew for the step."""
    has_signal: bool


def has_signal(rewards_G: Sequence[float | None], passes_G: Sequence[bool | None] | None) -> bool:
    """Return True if a group is worth training on: some of its rollouts pass, and some fail.

    Args:
        rewards_G: None where a rollout could not be judged.
        passes_G: passes of a named criterion. Without any, a reward of 1 passes and one of 0 fails, and a group with a
            reward between them is kept if two rewards differ: the paper's accuracy is 1 or 0, and what it drops for is
            that equal rewards have no advantages.
    """
    if passes_G is not None and any(passed is not None for passed in passes_G):
        return keep_prompt(passes_G)
    judged = [reward for reward in rewards_G if reward is not None]
    differ = bool(judged) and max(judged) - min(judged) > _SAME
    return differ and not all(reward >= 1 for reward in judged) and not all(reward <= 0 for reward in judged)


def other_prompts(count: int, used: Collection[int], *, seed: int, step: int) -> list[int]:
    """Order in which a step draws other prompts: indices of the dataset without the used ones.

    Args:
        count: prompts of the dataset.
    """
    order = [index for index in range(count) if index not in used]
    random.Random((seed * 1_000_003 + step) * 1_000_003 + 1).shuffle(order)
    return order


def check_reward_passes(rewards: Sequence[object], criterion: str | None) -> None:
    """Raise UserError if a criterion is named and no reward logs which rollouts pass it."""
    if criterion is not None and not any(getattr(reward, "criterion", None) == criterion for reward in rewards):
        raise UserError(
            f"policy.algorithm.refill.criterion {criterion}: this reward does not report which rollouts pass a "
            "criterion; leave it out, or train on a rubric"
        )


def split_groups(
    rows: Sequence[dict[str, Any]],
    generated: tuple[Any, ...],
    rewards_NK: Tensor,
    passes_N: Sequence[bool | None] | None,
    group_size: int,
    *,
    first: int,
    rewards_of: Callable[[Tensor], list[list[float | None]]],
) -> list[Group]:
    """Groups of a generation's rows.

    Args:
        generated: what TRL's `_generate` returned: lists with an entry per row, mappings of them, or None.
        first: position of the first row among all that this process drew for the step.
        rewards_of: rewards of rows of `rewards_NK` that are compared within the group: their weighted sum, or, where
            each is normalised by itself, each function's. A group has a signal if one of them has.
    """
    groups = []
    for start in range(0, len(rows), group_size):
        part = slice(start, start + group_size)
        passes = None if passes_N is None else passes_N[part]
        signal = any(has_signal(rewards_G, passes) for rewards_G in rewards_of(rewards_NK[part]))
        parts = tuple(_part(field, part) for field in generated)
        groups.append(Group(list(rows[part]), parts, rewards_NK[part], first + start, signal))
    return groups


def join_generated(groups: Sequence[Group]) -> tuple[Any, ...]:
    """Rows of several groups as one return value of TRL's `_generate`."""
    return tuple(_join(fields) for fields in zip(*(group.generated for group in groups), strict=True))


def _part(field: Any, part: slice) -> Any:
    if isinstance(field, Mapping):
        return {name: _part(values, part) for name, values in field.items()}
    return field[part] if isinstance(field, list) else field


def _join(fields: Sequence[Any]) -> Any:
    if isinstance(fields[0], Mapping):
        return {name: _join([field[name] for field in fields]) for name in fields[0]}
    return [value for field in fields for value in field] if isinstance(fields[0], list) else fields[0]
