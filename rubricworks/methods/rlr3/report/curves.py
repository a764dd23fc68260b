"""Figure 2 of RLR³ for this run, accuracy over milestones, and the curves of both trainings."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rubricworks.data.alarm import Alarm
from rubricworks.methods.rlr3.accuracy import ARMS, Accuracies, Accuracy
from rubricworks.methods.rlr3.report.run_results import NAMES
from rubricworks.metrics import Interval
from rubricworks.reports.charts import value_bounds
from rubricworks.reports.curves import Step
from rubricworks.reports.milestone_charts import MilestoneCurve, milestone_chart
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart


class AccuracyChart(NamedTuple):
    """Subplot: the chart, and each model's accuracy for the heading."""

    chart: SeriesChart
    ends: list[tuple[str, float]]
    """(kind, percent) for the base and for each arm's best milestone."""


def macro_chart(answers: Accuracies | None) -> AccuracyChart | None:
    """Chart of the macro average with its intervals."""
    return _chart("Macro average", answers, lambda accuracy: accuracy.macro, intervals=True, gap=7.0)


def task_charts(answers: Accuracies | None) -> list[AccuracyChart]:
    """Charts per task, in the order of the table."""

    def chart_of(task: str) -> AccuracyChart | None:
        return _chart(task, answers, lambda accuracy: accuracy.tasks.get(task), intervals=False, gap=11.0)

    charts = [chart_of(task) for task in (task_names(answers) if answers else ())]
    return [chart for chart in charts if chart]


def task_names(answers: Accuracies) -> list[str]:
    """Names of all tasks that any model answered."""
    models = [answers.base, *(one for points in answers.arms.values() for one in points)]
    return sorted({task for one in models for task in one.tasks})


def training_charts(steps: Mapping[str, Sequence[Step]], alarms: Mapping[str, Alarm]) -> list[SeriesChart]:
    """Charts of both arms' rewards and response lengths over training steps."""
    marks = [(float(alarm.step), f"alarm in {NAMES[arm]}, step {alarm.step}") for arm, alarm in alarms.items()]
    rewards = [
        Series(arm, NAMES[arm], [(float(one.step), one.reward) for one in of if one.reward is not None])
        for arm, of in steps.items()
    ]
    tokens = [Series(arm, NAMES[arm], [(float(one.step), one.tokens) for one in of]) for arm, of in steps.items()]
    lengths = [length for one in tokens for _, length in one.points]
    charts = [series_chart("Reward", rewards, bounds=(0.0, 1.0), marks=marks, smooth=True)]
    if lengths:
        charts.append(
            series_chart("Tokens per response", tokens, bounds=value_bounds(lengths), marks=marks, smooth=True)
        )
    return [chart for chart in charts if chart]


def _chart(
    title: str,
    answers: Accuracies | None,
    score_of: Callable[[Accuracy], Interval | None],
    *,
    intervals: bool,
    gap: float,
) -> AccuracyChart | None:
    if answers is None:
        return None
    base = score_of(answers.base)
    curves, ends = [], [("base", 100 * base.value)] if base else []
    for arm in ARMS:
        points = [(one.step, of) for one in answers.arms.get(arm, ()) if (of := score_of(one)) is not None]
        if points:
            best = answers.best[arm]
            ends += [(arm, 100 * of.value) for step, of in points if step == best]
            curves.append(MilestoneCurve(arm, NAMES[arm], points, best))
    chart = milestone_chart(title, base, curves, intervals=intervals, gap=gap)
    return AccuracyChart(chart, ends) if chart else None
