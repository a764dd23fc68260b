"""Accuracy per task and its macro average, for the base and every arm's milestones (RLR³, Table 2 and Figure 2).

It is the scoreboard of the answers, arranged by arm. The macro average weighs all tasks (benchmarks) equally.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rubricworks.evaluation.scoreboard import BASE, LENGTH, ModelScores, Scoreboard
from rubricworks.metrics import Interval

ARMS = ("rlvr", "rlr3")
RIGHT = "answers_right"
"""Figure of the scoreboard."""
ARM_GAIN = "rlr3 - rlvr"
"""Gain between the arms, which is reported first: best milestone against best milestone."""


class Accuracy(NamedTuple):
    """Accuracy of one model."""

    step: int
    """Training step; 0 for the base model."""
    tasks: Mapping[str, Interval]
    macro: Interval
    """Mean over tasks; the interval resamples each task's questions."""
    tokens: float | None


class Accuracies(NamedTuple):
    """Accuracies of all models of a run."""

    base: Accuracy
    arms: Mapping[str, tuple[Accuracy, ...]]
    """Arm → its milestones in order; the last one is the end of training."""
    best: Mapping[str, int]
    """Arm → step of its best milestone."""
    gains: Mapping[str, Interval]
    """Arm → macro average of its best milestone minus the base's, on the same questions; with two arms also
    `rlr3 - rlvr`, best milestone against best milestone.
    """

    def accuracy(self, arm: str, step: int | None = None) -> Accuracy:
        """Accuracy of an arm at a step, by default of its best milestone."""
        if arm == BASE:
            return self.base
        step = self.best[arm] if step is None else step
        return next(answers for answers in self.arms[arm] if answers.step == step)


def read_accuracies(board: Scoreboard | None) -> Accuracies | None:
    """Arrange a scoreboard by arm; None if no answer of the base was judged. Milestones without one are left out."""
    base = _accuracy(board.scores(board.base)) if board else None
    if board is None or base is None:
        return None
    arms = {}
    for arm in ARMS:
        milestones = [accuracy for scores in board.milestones(arm) if (accuracy := _accuracy(scores))]
        if milestones and arm in board.best:
            arms[arm] = tuple(sorted(milestones, key=lambda milestone: milestone.step))
    gains = {arm: gain for arm in arms if (gain := board.gain(arm, RIGHT))}
    if gain := board.differences.get(ARM_GAIN):
        gains[ARM_GAIN] = gain
    return Accuracies(base=base, arms=arms, best={arm: board.best[arm] for arm in arms}, gains=gains)


def _accuracy(scores: ModelScores | None) -> Accuracy | None:
    if scores is None or (macro := scores.means.get(RIGHT)) is None:
        return None
    length = scores.means.get(LENGTH)
    return Accuracy(scores.step or 0, scores.tasks.get(RIGHT, {}), macro, length.value if length else None)
