"""Accuracy per task and its macro average, for every arm and milestone (RLR³, Table 2 and Figure 2).

The macro average weighs tasks (benchmarks) the same. As in the paper an arm's best milestone is the one with the
highest macro average on these very benchmarks; the last one stands beside it, because choosing flatters.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.summary import Figure, figure

ANSWERS_FILE = "answers.json"
"""The summary, beside the table that it is made of."""
BASE = "base"
_DIGITS = 12


class Accuracy(BaseModel):
    """Of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    """0: the base model."""
    tasks: dict[str, Figure]
    macro: Figure
    """Mean over tasks; its interval is from resampling each task's questions."""
    tokens: float


class Difference(BaseModel):
    """Macro average of one arm minus another's, on the same questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    value: float
    low: float
    high: float


class AnswerSummary(BaseModel):
    """The evaluation of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Accuracy
    arms: dict[str, tuple[Accuracy, ...]]
    """Arm → its milestones in order, the last one the end of training."""
    best: dict[str, int]
    """Arm → step of its best milestone."""
    gains: dict[str, Difference]
    """Arm → best milestone minus base; with two arms also `rlr3 - rlvr`, best against best."""

    def of(self, arm: str, step: int | None = None) -> Accuracy:
        """The arm's best milestone, or the one at a step."""
        if arm == BASE:
            return self.base
        wanted = self.best[arm] if step is None else step
        return next(one for one in self.arms[arm] if one.step == wanted)


def summarise_answers(rows: Iterable[Mapping[str, Any]], *, resamples: int = 2_000, seed: int = 0) -> AnswerSummary:
    """The summary of a table of `answers`; what could not be judged is left out and counted.

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
    found = {
        key: Accuracy(
            step=key[1],
            tasks={task: one for task, answers in sorted(tasks.items()) if (one := figure(list(answers.values())))},
            macro=_macro(tasks, resamples, seed),
            tokens=sum(tokens[key]) / len(tokens[key]),
        )
        for key, tasks in right.items()
    }
    arms = {
        arm: tuple(found[arm, step] for step in sorted(step for name, step in found if name == arm))
        for arm in sorted({name for name, _ in found} - {BASE})
    }
    # The earliest of equals, which rounding must not tell apart: what needs least training.
    best = {
        arm: max(points, key=lambda one: (round(one.macro.value, _DIGITS), -one.step)).step
        for arm, points in arms.items()
    }
    gains = {arm: _difference(right[arm, step], right[BASE, 0], resamples, seed) for arm, step in best.items()}
    if {"rlr3", "rlvr"} <= best.keys():
        pair = (right["rlr3", best["rlr3"]], right["rlvr", best["rlvr"]])
        gains["rlr3 - rlvr"] = _difference(*pair, resamples, seed)
    return AnswerSummary(base=found[BASE, 0], arms=arms, best=best, gains=gains)


Answers = Mapping[str, Mapping[str, float | None]]
"""Task → sample → right or not."""


def _macro(tasks: Answers, resamples: int, seed: int) -> Figure:
    there = [[one for one in answers.values() if one is not None] for _, answers in sorted(tasks.items())]
    there = [answers for answers in there if answers]
    value, low, high = _interval(there, resamples, seed)
    count = sum(map(len, there))
    return Figure(value=value, low=low, high=high, samples=count, missing=sum(map(len, tasks.values())) - count)


def _difference(of: Answers, against: Answers, resamples: int, seed: int) -> Difference:
    """Question by question, so that what both find hard cancels out."""
    pairs = [
        [
            one - other
            for sample, one in sorted(answers.items())
            if one is not None and (other := against.get(task, {}).get(sample)) is not None
        ]
        for task, answers in sorted(of.items())
    ]
    value, low, high = _interval([differences for differences in pairs if differences], resamples, seed)
    return Difference(value=value, low=low, high=high)


def _interval(tasks: Sequence[Sequence[float]], resamples: int, seed: int) -> tuple[float, float, float]:
    """The mean of the tasks' means, and the percentile bootstrap over each task's questions."""
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
