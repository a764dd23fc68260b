"""Accuracy per task and its macro average, for every arm and milestone (RLR³, Table 2 and Figure 2).

The macro average weighs all tasks (benchmarks) equally. As in the paper, an arm's best milestone is the one with the
highest macro average on these same benchmarks; the last milestone is reported as well, because that choice is biased.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.metrics import Interval, bootstrap_interval, mean_interval, paired_differences

ANSWERS_FILE = "answers.json"
"""File of the summary, next to the table that it summarises."""
BASE = "base"
_DIGITS = 12


class Accuracy(BaseModel):
    """Accuracy of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    """Training step; 0 for the base model."""
    tasks: dict[str, Interval]
    macro: Interval
    """Mean over tasks; the interval resamples each task's questions."""
    tokens: float


class AnswerSummary(BaseModel):
    """Evaluation of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Accuracy
    arms: dict[str, tuple[Accuracy, ...]]
    """Arm → its milestones in order; the last one is the end of training."""
    best: dict[str, int]
    """Arm → step of its best milestone."""
    gains: dict[str, Interval]
    """Arm → macro average of its best milestone minus the base's, on the same questions; with two arms also
    `rlr3 - rlvr`, best milestone against best milestone."""

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
            tasks={
                task: one for task, answers in sorted(tasks.items()) if (one := mean_interval(list(answers.values())))
            },
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


def _macro(tasks: AnswersByTask, resamples: int, seed: int) -> Interval:
    answers = _by_question(tasks)
    strata = [task for task, _ in answers]
    macro = mean_interval(answers.values(), strata=strata, resamples=resamples, seed=seed)
    if macro is None:
        raise ValueError("no answer could be judged")
    return macro


def _difference(one: AnswersByTask, other: AnswersByTask, resamples: int, seed: int) -> Interval:
    """Paired difference, question by question, so that the difficulty of a question cancels out."""
    differences = paired_differences(dict(sorted(_by_question(one).items())), _by_question(other))
    if all(difference is None for difference in differences.values()):
        raise ValueError("no answer could be judged")
    strata = [task for task, _ in differences]
    return bootstrap_interval(differences.values(), strata=strata, resamples=resamples, seed=seed)


def _by_question(tasks: AnswersByTask) -> dict[tuple[str, str], float | None]:
    """(task, sample) → answer, in the order of the tasks' names."""
    return {(task, sample): right for task, answers in sorted(tasks.items()) for sample, right in answers.items()}
