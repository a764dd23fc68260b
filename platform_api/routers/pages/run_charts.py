"""Charts of curves: those of one run, and those of several runs over one another."""

from collections.abc import Sequence

from rubricworks.platform_api.schemas.runs import CurveBody
from rubricworks.reports.charts import Series, SeriesChart, series_chart
from rubricworks.training.policy.alarm_traces import known_statistics

_TITLES = {
    "reward": "Reward",
    "held_out": "Held-out judge",
    "entropy": "Entropy",
    "length": "Length, tokens",
    "kl": "KL from the base",
    "learning_rate": "Learning rate",
    "zero_spread": "Groups with equal rewards",
    "memory_gb": "Memory, GB",
    "tokens_per_second": "Tokens a second",
    "loss": "Loss",
    "held_out_loss": "Loss on held-out samples",
    "grad_norm": "Gradient norm",
    "drift": "Drift",
}
"""Curve → its title, in the order of the page; statistics of responses follow."""
_FINEST = 4
"""Decimals of figures that are small, such as a learning rate."""


def of_run(curves: Sequence[CurveBody]) -> list[tuple[str, list[SeriesChart]]]:
    """Charts of a run by its stages."""
    stages = dict.fromkeys(curve.stage for curve in curves)
    return [
        (stage, [chart for name in _names(curves) if (chart := _chart(curves, name, stage=stage))]) for stage in stages
    ]


def overlaid(curves: Sequence[CurveBody], runs: Sequence[str]) -> list[SeriesChart]:
    """Charts of several runs, each with a line for every training of each run; a run has one colour in all."""
    return [chart for name in _names(curves) if (chart := _chart(curves, name, runs=runs))]


def _names(curves: Sequence[CurveBody]) -> list[str]:
    present = dict.fromkeys(curve.name for curve in curves)
    return [*(name for name in _TITLES if name in present), *(name for name in present if name not in _TITLES)]


def _chart(
    curves: Sequence[CurveBody], name: str, *, stage: str | None = None, runs: Sequence[str] = ()
) -> SeriesChart | None:
    lines = [curve for curve in curves if curve.name == name and stage in (None, curve.stage)]
    numbers = {run: number for number, run in enumerate(runs, 1)}
    of_run = {run: sum(curve.run == run for curve in lines) for run in numbers}
    series = [
        Series(
            f"m{numbers.get(curve.run, 1) - 1}",
            _label(curve, numbers, of_run) if runs else "",
            curve.points,
        )
        for curve in lines
    ]
    values = [abs(value) for line in series for _, value in line.points]
    places = _FINEST if values and max(values) < 0.1 else 2
    chart = series_chart(_title(name), series, smooth=True, places=places) if values else None
    return chart._replace(ends=[]) if chart and len(series) > 1 else chart


def _label(curve: CurveBody, numbers: dict[str, int], of_run: dict[str, int]) -> str:
    """Number of the run, with the stage if the run has several such curves."""
    number = str(numbers[curve.run])
    return f"{number} {curve.stage}" if of_run[curve.run] > 1 else number


def _title(name: str) -> str:
    statistic = known_statistics().get(name)
    words = statistic.words if statistic and name not in _TITLES else name.replace("_", " ")
    return _TITLES.get(name) or f"{words[:1].upper()}{words[1:]}"
