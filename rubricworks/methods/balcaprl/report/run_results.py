"""Results in the folder of a BalCapRL run: the scoreboard, and the means of each training step."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.alarm import Alarm, read_alarm
from rubricworks.evaluation.scoreboard import LENGTH, Scoreboard
from rubricworks.methods.balcaprl.report.groups import REWARDS, gated_rewards
from rubricworks.reports.run_folder import table_rows
from rubricworks.reports.scores import read_board

STAGE = "train_balcaprl"
SCORE_NAMES = {
    "b_capscore": "b-CapScore",
    "b_capscore_precision": "Precision",
    "b_capscore_recall": "Recall",
    "b_capscore_linguistic": "Linguistic",
    "dc_score": "DCScore",
    "dc_score_f1": "DCScore, F1",
    "dc_score_precision": "DCScore, precision",
    "dc_score_recall": "DCScore, recall",
    "caption_qa": "CaptionQA",
    "oracle_f1": "Oracle F1",
    "oracle_precision": "Oracle precision",
    "oracle_recall": "Oracle recall",
    "visual_questions_right": "Questions answered",
    LENGTH: "Tokens per caption",
}
"""Figure → display name, in the order of the table."""


class StepMeans(NamedTuple):
    """Means over the rollouts of one training step."""

    step: int
    rollouts: int
    unjudged: int
    rewards: dict[str, float]
    """Precision, recall and linguistic after the length gate, over judged rollouts; empty if there are none."""
    shut: float | None
    """Share of the judged rollouts that the length gate shut out."""
    tokens: float
    ratio: float | None
    """Tokens of the caption per token of its reference."""


class BalcaprlRun(NamedTuple):
    board: Scoreboard | None
    steps: list[StepMeans]
    alarm: Alarm | None


def read_balcaprl_run(run: Path) -> BalcaprlRun:
    """Read the results; missing files give None or no steps.

    Raises:
        UserError: a file has other contents than expected.
    """
    return BalcaprlRun(
        board=read_board(run),
        steps=step_means(table_rows(run / STAGE / "caption_grades", _COLUMNS)),
        alarm=read_alarm(run / STAGE),
    )


_COLUMNS = ["step", *REWARDS, "gated", "tokens", "reference_tokens"]


class _Sums:
    __slots__ = ("judged", "measured", "ratio", "rewards", "rollouts", "shut", "tokens")

    def __init__(self) -> None:
        self.rollouts = self.judged = self.shut = self.tokens = self.measured = 0
        self.ratio = 0.0
        self.rewards = [0.0] * len(REWARDS)


def step_means(rows: Iterable[dict[str, Any]]) -> list[StepMeans]:
    """Average rows of `caption_grades` per training step, in order."""
    sums: dict[int, _Sums] = {}
    for row in rows:
        step = sums.setdefault(row["step"], _Sums())
        step.rollouts += 1
        step.tokens += row["tokens"]
        if row["reference_tokens"]:
            step.measured += 1
            step.ratio += row["tokens"] / row["reference_tokens"]
        if (rewards := gated_rewards(row)) is not None:
            step.judged += 1
            step.shut += bool(row["gated"])
            step.rewards = [total + reward for total, reward in zip(step.rewards, rewards, strict=True)]
    return [
        StepMeans(
            step=number,
            rollouts=one.rollouts,
            unjudged=one.rollouts - one.judged,
            rewards={name: total / one.judged for name, total in zip(REWARDS, one.rewards, strict=True)}
            if one.judged
            else {},
            shut=one.shut / one.judged if one.judged else None,
            tokens=one.tokens / one.rollouts,
            ratio=one.ratio / one.measured if one.measured else None,
        )
        for number, one in sorted(sums.items())
    ]
