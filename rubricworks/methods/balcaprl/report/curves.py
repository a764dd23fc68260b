"""Curves of a BalCapRL training: its three rewards, the length of captions, and the share of shut gates."""

from collections.abc import Sequence

from rubricworks.data.alarm import Alarm
from rubricworks.methods.balcaprl.report.groups import REWARDS
from rubricworks.methods.balcaprl.report.run_results import StepMeans
from rubricworks.reports.charts import value_bounds
from rubricworks.reports.curves import Step
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart


def caption_charts(
    steps: Sequence[StepMeans], gate: tuple[float, float] | None, alarm: Alarm | None
) -> list[SeriesChart]:
    """Charts of rewards, length ratio, shut gates and tokens over training steps.

    Args:
        gate: bounds of the length ratio; None for a training without a gate, which has no chart of it.
    """
    marks = _marks(alarm)
    rewards = [
        Series(name, name.capitalize(), [(float(one.step), one.rewards[name]) for one in steps if one.rewards])
        for name in REWARDS
    ]
    charts = [series_chart("Rewards", rewards, bounds=(0.0, 1.0), marks=marks, smooth=True, gap=11.0)]

    ratios = [(float(one.step), one.ratio) for one in steps if one.ratio is not None]
    if ratios:
        first, last = ratios[0][0], ratios[-1][0]
        walls = [Series("wall", f"gate {bound:g}", [(first, bound), (last, bound)]) for bound in gate or ()]
        values = [ratio for _, ratio in ratios] + list(gate or ())
        charts.append(
            series_chart(
                "Tokens by tokens of the reference",
                [Series("length", "captions", ratios), *walls],
                bounds=value_bounds([0.0, *values]),
                marks=marks,
                smooth=True,
                gap=11.0,
            )
        )
    if gate:
        shut = [(float(one.step), one.shut) for one in steps if one.shut is not None]
        line = Series("shut", "shut", shut)
        charts.append(series_chart("Share of shut gates", [line], bounds=(0.0, 1.0), marks=marks, smooth=True))
    charts.append(_tokens([(float(one.step), one.tokens) for one in steps], marks))
    return [chart for chart in charts if chart]


def reward_charts(steps: Sequence[Step], alarm: Alarm | None) -> list[SeriesChart]:
    """Charts of the reward and the tokens, for a training with a single reward."""
    marks = _marks(alarm)
    rewards = [(float(one.step), one.reward) for one in steps if one.reward is not None]
    line = Series("length", "captions", rewards)
    charts = [
        series_chart("Reward", [line], bounds=(0.0, 1.0), marks=marks, smooth=True),
        _tokens([(float(one.step), one.tokens) for one in steps], marks),
    ]
    return [chart for chart in charts if chart]


def _tokens(points: list[tuple[float, float]], marks: list[tuple[float, str]]) -> SeriesChart | None:
    if not points:
        return None
    bounds = value_bounds([length for _, length in points])
    line = Series("length", "captions", points)
    return series_chart("Tokens per caption", [line], bounds=bounds, marks=marks, smooth=True)


def _marks(alarm: Alarm | None) -> list[tuple[float, str]]:
    return [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm else []
