"""Real groups of a training for the advantage viewer: what their rollouts earned, and what GRPO and c-GDPO make of it.

The groups are picked by a rule, not by eye: of the first, middle and last third of the steps each, one drawn by a hash
of its name and the seed, and the one whose rollouts the two methods order most differently.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.reports.run_folder import table_rows

if TYPE_CHECKING:
    from torch import Tensor

REWARDS = ("precision", "recall", "linguistic")
_COLUMNS = ["step", "sample_id", "response", *REWARDS, "gated", "advantage"]
_FEWEST = 3
"""Judged rollouts of a group that is shown: two are always as far apart as they can be."""
_ROUNDING = 1e-9
"""Advantages that differ by less do not differ."""


class RewardGroup(NamedTuple):
    """The rollouts of one sample at one step."""

    step: int
    sample_id: str
    responses: list[str]
    rewards: list[tuple[float, ...] | None]
    """Precision, recall and linguistic as the policy was paid: 0 behind a shut gate. None: not judged."""
    gated: list[bool]
    recorded: list[float | None]
    """The advantages that training used."""


@dataclass(frozen=True)
class Moments:
    """What the batch's other groups hold of weighted sums of normalised rewards."""

    count: int
    mean: float
    squares: float
    telling: bool
    """Whether any of them differs from 0 by more than rounding errors."""


class ShownGroup(NamedTuple):
    group: RewardGroup
    why: str
    grpo: list[float]
    decoupled: list[float]
    """Normalised over the whole batch of that step."""
    reordered: int
    """Pairs of rollouts that the two methods order the other way round."""
    pairs: int
    """Of judged rollouts."""
    rest: Moments

    def for_browser(self) -> dict[str, Any]:
        return {"rewards": self.group.rewards, "rest": asdict(self.rest)}


def reward_groups(run: Path, weights: Sequence[float], *, seed: int) -> list[ShownGroup]:
    """Up to six groups, in the order of their steps; none if no group has three judged rollouts."""
    grades = run / "train_balcaprl" / "caption_grades"
    steps = sorted({row["step"] for row in table_rows(grades, ["step"])})
    drawn: dict[int, tuple[bytes, ShownGroup]] = {}
    disputed: dict[int, tuple[int, ShownGroup]] = {}
    for step, groups in read_groups(table_rows(grades, _COLUMNS)):
        third = 3 * steps.index(step) // len(steps)
        for one in _judged(groups, weights):
            drawing = hashlib.sha256(f"{seed}:{one.group.step}:{one.group.sample_id}".encode()).digest()
            if third not in drawn or drawing < drawn[third][0]:
                drawn[third] = drawing, one
            if one.reordered > (disputed[third][0] if third in disputed else 0):
                disputed[third] = one.reordered, one
    shown: dict[tuple[int, str], ShownGroup] = {}
    for kind, why in ((disputed, "ordered most differently"), (drawn, "drawn")):
        for _, (_, one) in sorted(kind.items()):
            shown.setdefault((one.group.step, one.group.sample_id), one._replace(why=why))
    return [one for _, one in sorted(shown.items())]


def read_groups(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[RewardGroup]]]:
    """The groups of each step from rows of `caption_grades`; a sample drawn twice in a step makes two groups."""
    for step, of_step in groupby(rows, key=lambda row: row["step"]):
        by_sample: dict[str, list[dict[str, Any]]] = {}
        for row in of_step:
            by_sample.setdefault(row["sample_id"], []).append(row)
        size = math.gcd(*map(len, by_sample.values()))
        yield (
            step,
            [
                _group(step, sample_id, drawn[start : start + size])
                for sample_id, drawn in by_sample.items()
                for start in range(0, len(drawn), size)
            ],
        )


def gated_rewards(row: dict[str, Any]) -> tuple[float, ...] | None:
    """The three rewards of a row of `caption_grades` as the policy was paid; None where any is missing."""
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


def _judged(groups: Sequence[RewardGroup], weights: Sequence[float]) -> Iterator[ShownGroup]:
    """The groups of one step that can be shown, with both advantages."""
    import torch

    from rubricworks.rl import decoupled_advantages, group_advantages

    size = len(groups[0].rewards)
    if size < _FEWEST:
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
        if judged_G.sum() < _FEWEST:
            continue
        grpo, decoupled = grpo_PG[at].tolist(), decoupled_PG[at].tolist()
        pairs = list(combinations(judged_G.nonzero().flatten().tolist(), 2))
        reordered = sum((grpo[a] - grpo[b]) * (decoupled[a] - decoupled[b]) < -_ROUNDING for a, b in pairs)
        others_P = torch.arange(len(groups)) != at
        rest = _moments(sums_PG[others_P][judged_PG[others_P]])
        yield ShownGroup(group, "", grpo, decoupled, reordered, len(pairs), rest)


def _moments(sums_N: "Tensor") -> Moments:
    if not sums_N.numel():
        return Moments(0, 0.0, 0.0, telling=False)
    squares = (sums_N - sums_N.mean()).square().sum()
    return Moments(sums_N.numel(), float(sums_N.mean()), float(squares), bool((sums_N.abs() > _ROUNDING).any()))
