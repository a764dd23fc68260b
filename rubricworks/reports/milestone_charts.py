"""Charts of a share over the milestones of trainings, in percent, with the base model as a level."""

from collections.abc import Sequence
from typing import NamedTuple

from rubricworks.metrics import Interval
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart

_MIN_SPAN = 10.0
"""Smallest range of a chart in percentage points, so that differences of one or two do not look large."""


class MilestoneCurve(NamedTuple):
    """Shares of one trained model."""

    kind: str
    """CSS class, which determines colour and marker."""
    label: str
    points: Sequence[tuple[int, Interval]]
    """(step, share), ordered by step."""
    best: int | None


def milestone_chart(
    title: str, base: Interval | None, curves: Sequence[MilestoneCurve], *, intervals: bool = True, gap: float = 7.0
) -> SeriesChart | None:
    """Lay out the curves; None if there are no points.

    Args:
        intervals: draw the intervals.
        gap: as in `series_chart`.
    """
    series = [
        Series(
            kind=curve.kind,
            label=curve.label,
            points=[(float(step), 100 * share.value) for step, share in curve.points],
            intervals=[_percents(share) for _, share in curve.points] if intervals else (),
            picked=None if curve.best is None else float(curve.best),
        )
        for curve in curves
        if curve.points
    ]
    percents = [value for one in series for _, value in one.points] + ([100 * base.value] if base else [])
    percents += [end for one in series for interval in one.intervals for end in interval]
    return series_chart(
        title,
        series,
        bounds=_bounds(percents),
        start=0.0,
        level=(100 * base.value, "base") if base else None,
        gap=gap,
    )


def _percents(share: Interval) -> tuple[float, float]:
    """The bounds in percent; the value twice if there are none."""
    low, high = share.bounds or (share.value, share.value)
    return 100 * low, 100 * high


def _bounds(percents: Sequence[float]) -> tuple[float, float]:
    low, high = min(percents, default=0.0), max(percents, default=100.0)
    missing = max(0.0, _MIN_SPAN - (high - low)) / 2
    low, high = max(0.0, low - missing), min(100.0, high + missing)
    # At an edge the whole extension goes to the other side.
    return max(0.0, min(low, high - _MIN_SPAN)), min(100.0, max(high, low + _MIN_SPAN))
