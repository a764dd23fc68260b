"""Accuracy per task and its macro average, for every arm and milestone (RLR³, Table 2 and Figure 2).

The macro average weighs all tasks (benchmarks) equally. As in the paper, an arm's best milestone is the one with the
highest macro average on these same benchmarks; the last milestone is reported as well, because that choice is biased.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.summary import MeanScore, mean_score

ANSWERS_FILE = "answers.json"
"""File of the summary, next to the table that it summarises."""
BASE = "base"
_DIGITS = 12


class Accuracy(BaseModel):
    """Accuracy of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    """Training step; 0 for the base model."""
    tasks: dict[str, MeanScore]
    macro: MeanScore
    """Mean over tasks; the interval resamples each task's questions."""
    tokens: float


class Difference(BaseModel):
    """Macro average of one arm minus another's, on the same questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float
    high: float


class AnswerSummary(BaseModel):
    """Evaluation of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Accuracy
    arms: dict[str, tuple[Accuracy, ...]]
    """Arm → its milestones in order; the last one is the end of training."""
    best: dict[str, int]
    """Arm → step of its best milestone."""
    gains: dict[str, Difference]
    """Arm → best milestone minus base; with two arms also `rlr3 - rlvr`, best milestone against best milestone."""

    def accuracy(self, arm: str, step: int | None = None) -> Accuracy:
        """Accuracy of an arm at a step, by default of its best milestone."""
        if arm == BASE:
            return self.base
        step = self.best[arm] if step is None else step
        return next(one for one in self.arms[arm] if one.step == step)


def summarise_answers(rows: Iterable[Mapping[str, Any]], *, resamples: int = 2_000, seed: int = 0) -> AnswerSummary:
    """Summarise an `answers` table; answers that could not be judged are left out and counted.

    Raises:
        ValueError: there is no row of the base model, or none was judged.
    """
    right: dict[tuple[str, int], dict[str, dict[str, float | None]]] = defaultdict(lambda: defaultdict(dict))
    tokens: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        key = (row["arm"], row["step"])
        right[key][row["task"]][row["sample_id"]] = None if row["right"] is None else float(row["right"])
        tokens[key].append(row["tokens"])
    if (BASE, 0) not in right:
        raise ValueError("no answers of the base model")
    accuracies = {
        key: Accuracy(
            step=key[1],
            tasks={task: one for task, answers in sorted(tasks.items()) if (one := mean_score(list(answers.values())))},
            macro=_macro(tasks, resamples, seed),
            tokens=sum(tokens[key]) / len(tokens[key]),
        )
        for key, tasks in right.items()
    }
    arms = {
        arm: tuple(accuracies[arm, step] for step in sorted(step for name, step in accuracies if name == arm))
        for arm in sorted({name for name, _ in accuracies} - {BASE})
    }
    # Among equals the earliest, which needs the least training; rounding keeps float noise from breaking ties.
    best = {
        arm: max(points, key=lambda one: (round(one.macro.value, _DIGITS), -one.step)).step
        for arm, points in arms.items()
    }
    gains = {arm: _difference(right[arm, step], right[BASE, 0], resamples, seed) for arm, step in best.items()}
    if {"rlr3", "rlvr"} <= best.keys():
        pair = (right["rlr3", best["rlr3"]], right["rlvr", best["rlvr"]])
        gains["rlr3 - rlvr"] = _difference(*pair, resamples, seed)
    return AnswerSummary(base=accuracies[BASE, 0], arms=arms, best=best, gains=gains)


AnswersByTask = Mapping[str, Mapping[str, float | None]]
"""Task → sample → 1 if right, 0 if wrong, None if not judged."""


def _macro(tasks: AnswersByTask, resamples: int, seed: int) -> MeanScore:
    judged = [[one for one in answers.values() if one is not None] for _, answers in sorted(tasks.items())]
    judged = [answers for answers in judged if answers]
    value, low, high = _interval(judged, resamples, seed)
    count = sum(map(len, judged))
    return MeanScore(value=value, low=low, high=high, samples=count, missing=sum(map(len, tasks.values())) - count)


def _difference(one: AnswersByTask, other: AnswersByTask, resamples: int, seed: int) -> Difference:
    """Paired difference, question by question, so that the difficulty of a question cancels out."""
    pairs = [
        [
            right - other_right
            for sample, right in sorted(answers.items())
            if right is not None and (other_right := other.get(task, {}).get(sample)) is not None
        ]
        for task, answers in sorted(one.items())
    ]
    value, low, high = _interval([differences for differences in pairs if differences], resamples, seed)
    return Difference(value=value, low=low, high=high)


def _interval(tasks: Sequence[Sequence[float]], resamples: int, seed: int) -> tuple[float, float, float]:
    """Mean of the tasks' means, with a percentile bootstrap over each task's questions."""
    import numpy as np

    if not tasks:
        raise ValueError("no answer could be judged")
    generator = np.random.default_rng(seed)
    means = np.zeros(resamples)
    for answers in tasks:
        values = np.array(answers)
        means += values[generator.integers(0, values.size, size=(resamples, values.size))].mean(axis=1)
    low, high = np.quantile(means / len(tasks), [0.025, 0.975])
    return float(np.mean([np.mean(answers) for answers in tasks])), float(low), float(high)
