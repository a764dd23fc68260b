"""Groups of a training for the advantage viewer, with their rewards and the advantages by GRPO and c-GDPO.

The groups are selected by a rule: from each third of the steps, one drawn by a hash of its sample id and the seed, and
the one whose rollouts the two methods order most differently.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.reports.run_folder import table_rows

if TYPE_CHECKING:
    from torch import Tensor

REWARDS = ("precision", "recall", "linguistic")
_COLUMNS = ["step", "sample_id", "response", *REWARDS, "gated", "advantage"]
_MIN_JUDGED = 3
"""Fewest judged rollouts of a group: the normalised rewards of two always have the same distance."""
_ROUNDING = 1e-9
"""Tolerance below which two advantages are equal."""


class RewardGroup(NamedTuple):
    """Rollouts of one sample at one step."""

    step: int
    sample_id: str
    responses: list[str]
    rewards: list[tuple[float, ...] | None]
    """Precision, recall and linguistic after the length gate, which sets linguistic to 0; None if not judged."""
    gated: list[bool]
    recorded: list[float | None]
    """Advantages used in training."""


@dataclass(frozen=True)
class Moments:
    """Moments of the weighted sums of normalised rewards in the other groups of the batch."""

    count: int
    mean: float
    squares: float
    telling: bool
    """True if any of the sums differs from 0 by more than rounding errors."""


class ComparedGroup(NamedTuple):
    """Group with its advantages by both methods."""

    group: RewardGroup
    why: str
    """Reason for the selection, as the page shows it."""
    grpo: list[float]
    decoupled: list[float]
    """Advantages by c-GDPO, normalised over the whole batch of the step."""
    reordered: int
    """Pairs of rollouts that the two methods order differently."""
    pairs: int
    """Pairs of judged rollouts."""
    rest: Moments


def reward_groups(run: Path, weights: Sequence[float], *, seed: int) -> list[ComparedGroup]:
    """Select up to six groups, in the order of their steps; none if no group has three judged rollouts."""
    grades = run / "train_balcaprl" / "caption_grades"
    steps = sorted({row["step"] for row in table_rows(grades, ["step"])})
    random: dict[int, tuple[bytes, ComparedGroup]] = {}
    disputed: dict[int, tuple[int, ComparedGroup]] = {}
    for step, groups in read_groups(table_rows(grades, _COLUMNS)):
        third = 3 * steps.index(step) // len(steps)
        for compared in _compare_advantages(groups, weights):
            rank = hashlib.sha256(f"{seed}:{compared.group.step}:{compared.group.sample_id}".encode()).digest()
            if third not in random or rank < random[third][0]:
                random[third] = rank, compared
            if compared.reordered > (disputed[third][0] if third in disputed else 0):
                disputed[third] = compared.reordered, compared
    selection: dict[tuple[int, str], ComparedGroup] = {}
    for kind, why in ((disputed, "ordered most differently"), (random, "drawn")):
        for _, (_, compared) in sorted(kind.items()):
            selection.setdefault((compared.group.step, compared.group.sample_id), compared._replace(why=why))
    return [compared for _, compared in sorted(selection.items())]


def read_groups(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[RewardGroup]]]:
    """Group the rows of `caption_grades` by step and sample; a sample drawn twice in a step makes two groups."""
    for step, step_rows in groupby(rows, key=lambda row: row["step"]):
        by_sample: dict[str, list[dict[str, Any]]] = {}
        for row in step_rows:
            by_sample.setdefault(row["sample_id"], []).append(row)
        size = math.gcd(*map(len, by_sample.values()))
        yield (
            step,
            [
                _group(step, sample_id, rollouts[start : start + size])
                for sample_id, rollouts in by_sample.items()
                for start in range(0, len(rollouts), size)
            ],
        )


def gated_rewards(row: dict[str, Any]) -> tuple[float, ...] | None:
    """Return the three rewards of a row of `caption_grades` after the length gate; None if any is missing."""
    rewards = [row[name] for name in REWARDS]
    if any(reward is None for reward in rewards):
        return None
    return (rewards[0], rewards[1], 0.0 if row["gated"] else rewards[2])


def _group(step: int, sample_id: str, rows: list[dict[str, Any]]) -> RewardGroup:
    return RewardGroup(
        step=step,
        sample_id=sample_id,
        responses=[row["response"] for row in rows],
        rewards=[gated_rewards(row) for row in rows],
        gated=[bool(row["gated"]) for row in rows],
        recorded=[row["advantage"] for row in rows],
    )


def _compare_advantages(groups: Sequence[RewardGroup], weights: Sequence[float]) -> Iterator[ComparedGroup]:
    """Compute both advantages for the groups of one step that have enough judged rollouts."""
    import torch

    from rubricworks.rl import decoupled_advantages, group_advantages

    size = len(groups[0].rewards)
    if size < _MIN_JUDGED:
        return
    missing = (math.nan,) * len(REWARDS)
    rewards_NK = torch.tensor([row or missing for group in groups for row in group.rewards], dtype=torch.float64)
    weights_K = torch.tensor(weights, dtype=torch.float64)
    grpo_PG = group_advantages(rewards_NK @ weights_K, size).view(-1, size)
    decoupled_PG = decoupled_advantages(rewards_NK, weights_K, size).view(-1, size)
    scores_NK = torch.stack([group_advantages(rewards_N, size) for rewards_N in rewards_NK.T], dim=1)
    sums_PG = (scores_NK @ weights_K).view(-1, size)
    judged_PG = ~rewards_NK[:, 0].isnan().view(-1, size)
    for at, group in enumerate(groups):
        judged_G = judged_PG[at]
        if judged_G.sum() < _MIN_JUDGED:
            continue
        grpo, decoupled = grpo_PG[at].tolist(), decoupled_PG[at].tolist()
        pairs = list(combinations(judged_G.nonzero().flatten().tolist(), 2))
        reordered = sum((grpo[a] - grpo[b]) * (decoupled[a] - decoupled[b]) < -_ROUNDING for a, b in pairs)
        others_P = torch.arange(len(groups)) != at
        rest = _moments(sums_PG[others_P][judged_PG[others_P]])
        yield ComparedGroup(group, "", grpo, decoupled, reordered, len(pairs), rest)


def _moments(sums_N: "Tensor") -> Moments:
    if not sums_N.numel():
        return Moments(0, 0.0, 0.0, telling=False)
    squares = (sums_N - sums_N.mean()).square().sum()
    return Moments(sums_N.numel(), float(sums_N.mean()), float(squares), bool((sums_N.abs() > _ROUNDING).any()))
