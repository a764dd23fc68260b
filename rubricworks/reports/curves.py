"""Training curves from the rollouts table: reward, length and statistics of the responses per step.

Rows are summed in one pass; only one small record per step stays in memory. The statistics are those of the hacking
alarm.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.response_images import IMAGES, ResponseImages, response_of
from rubricworks.reports.run_folder import table_rows
from rubricworks.training.policy.response_statistics import Statistic


class Step(NamedTuple):
    """Means over the rollouts of one training step."""

    step: int
    rollouts: int
    unjudged: int
    reward: float | None
    """Mean over the judged rollouts; None if there are none."""
    tokens: float
    values: Mapping[str, float]
    """Statistic → mean; empty if none was asked for."""


class _Sums:
    __slots__ = ("counts", "judged", "reward", "rollouts", "tokens", "values")

    def __init__(self) -> None:
        self.rollouts = self.judged = self.tokens = 0
        self.reward = 0.0
        self.values: defaultdict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()


def read_steps(run: Path, stage: str = "train_policy", *, statistics: Sequence[Statistic] = ()) -> list[Step]:
    """One record per training step, in order; empty without rollouts.

    Args:
        statistics: statistics to compute of the responses; images are read from the training's folder.
    """
    images = ResponseImages(run / stage / IMAGES)
    sums: dict[int, _Sums] = {}
    columns = ["step", "tokens", "reward", *(["response", "response_type"] if statistics else [])]
    for row in table_rows(run / stage / "rollouts", columns):
        step = sums.setdefault(row["step"], _Sums())
        step.rollouts += 1
        step.tokens += row["tokens"]
        for statistic in statistics:
            value = statistic.measure(images.read(response_of(row)), row["tokens"])
            if not math.isnan(value):  # of an image that no decoder reads
                step.values[statistic.name] += value
                step.counts[statistic.name] += 1
        if row["reward"] is not None:
            step.judged += 1
            step.reward += row["reward"]
    return [
        Step(
            step=number,
            rollouts=one.rollouts,
            unjudged=one.rollouts - one.judged,
            reward=one.reward / one.judged if one.judged else None,
            tokens=one.tokens / one.rollouts,
            values={name: total / one.counts[name] for name, total in one.values.items()},
        )
        for number, one in sorted(sums.items())
    ]
