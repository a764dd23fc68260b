"""Training curves from the rollouts table: reward, length, objects named and repetition per step.

Rows are summed in one pass; only one small record per step stays in memory. The counts are those of the hacking alarm.
"""

from pathlib import Path
from typing import NamedTuple

from rubricworks.reports.run_folder import table_rows
from rubricworks.training.alarm import objects_named, repetition


class Step(NamedTuple):
    """Means over the rollouts of one training step."""

    step: int
    rollouts: int
    unjudged: int
    reward: float | None
    """Mean over the judged rollouts; None if there are none."""
    tokens: float
    objects: float
    repetition: float


class _Sums:
    __slots__ = ("judged", "objects", "repetition", "reward", "rollouts", "tokens")

    def __init__(self) -> None:
        self.rollouts = self.judged = self.tokens = self.objects = 0
        self.reward = self.repetition = 0.0


def read_steps(run: Path, stage: str = "train_policy", *, words: bool = True) -> list[Step]:
    """One record per training step, in order; empty without rollouts.

    Args:
        words: also read the responses; if False, `objects` and `repetition` are 0.
    """
    sums: dict[int, _Sums] = {}
    columns = ["step", "tokens", "reward", *(["response"] if words else [])]
    for row in table_rows(run / stage / "rollouts", columns):
        step = sums.setdefault(row["step"], _Sums())
        step.rollouts += 1
        step.tokens += row["tokens"]
        if words:
            step.objects += objects_named(row["response"])
            step.repetition += repetition(row["response"])
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
            objects=one.objects / one.rollouts,
            repetition=one.repetition / one.rollouts,
        )
        for number, one in sorted(sums.items())
    ]
