"""Geometry of charts with several lines over the same steps, each with its name at its end.

In percent of the frame, with the axes of `charts`.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rubricworks.reports.charts import Tick, downsample, frame_of, moving_average, path

MAX_MARKERS = 16
"""Markers of a line: more of them run into one another on a phone."""


class Series(NamedTuple):
    """One line as it was measured."""

    kind: str
    """CSS class, which determines colour and marker."""
    label: str
    points: Sequence[tuple[float, float]]
    """(step, value), ordered by step."""
    intervals: Sequence[tuple[float, float]] = ()
    """(low, high) of every point."""
    picked: float | None = None
    """The step with a highlighted marker."""


class Dot(NamedTuple):
    left: float
    top: float
    picked: bool
    text: str


class LineLayout(NamedTuple):
    """One line in percent of the frame."""

    kind: str
    label: str
    label_top: float
    line: str
    measured: str | None
    """The line before smoothing; None without smoothing."""
    band: str | None
    """Outline of the intervals."""
    dots: list[Dot]
    first: float
    last: float


class SeriesChart(NamedTuple):
    title: str
    lines: list[LineLayout]
    level: float | None
    """Top of the horizontal line."""
    level_label: Tick | None
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Tick]


def series_chart(
    title: str,
    series: Sequence[Series],
    *,
    bounds: tuple[float, float],
    start: float | None = None,
    level: tuple[float, str] | None = None,
    marks: Sequence[tuple[float, str]] = (),
    gap: float = 9.0,
    smooth: bool = False,
) -> SeriesChart | None:
    """Lay out several lines; None if there are no points.

    Args:
        bounds: lowest and highest value of the frame.
        start: first step of the frame, by default that of the first point.
        level: value and name of a horizontal line.
        marks: (step, label) of vertical lines.
        gap: smallest distance between the lines' names, in percent of the frame's height.
        smooth: draw a moving average over the measured line, without markers.
    """
    series = [one for one in series if one.points]
    if not series:
        return None
    steps = [x for one in series for x, _ in one.points]
    frame = frame_of((min(steps) if start is None else start, max(steps)), bounds)
    lines = []
    for one in series:
        xs, ys = zip(*one.points, strict=True)
        line = list(zip(xs, moving_average(ys), strict=True)) if smooth else list(one.points)
        lows = [frame.place(x, low) for x, (low, _) in zip(xs, one.intervals, strict=False)]
        highs = [frame.place(x, high) for x, (_, high) in zip(xs, one.intervals, strict=False)]
        placed = [(frame.place(x, y), x, y) for x, y in _marked(one)]
        lines.append(
            LineLayout(
                kind=one.kind,
                label=one.label,
                label_top=frame.place(*line[-1])[1],
                line=_line([frame.place(*point) for point in downsample(line)]),
                measured=_line([frame.place(*point) for point in downsample(list(one.points))]) if smooth else None,
                band=f"{_line(highs + lows[::-1])}Z" if len(lows) > 1 else None,
                dots=[]
                if smooth
                else [Dot(*at, x == one.picked, f"{one.label}, step {x:g}: {y:.1f}") for at, x, y in placed],
                first=line[0][1],
                last=line[-1][1],
            )
        )
    level_top = frame.place(frame.left, level[0])[1] if level else None
    tops = spread([*(one.label_top for one in lines), *([level_top] if level_top is not None else [])], gap)
    return SeriesChart(
        title=title,
        lines=[one._replace(label_top=top) for one, top in zip(lines, tops, strict=False)],
        level=level_top,
        level_label=Tick(tops[-1], level[1]) if level else None,
        x_ticks=frame.x_ticks,
        y_ticks=frame.y_ticks,
        marks=frame.mark_ticks(marks),
    )


def spread(tops: Sequence[float], gap: float) -> list[float]:
    """Move positions until neighbours are at least `gap` apart; their order stays, and one pass keeps moves small."""
    order = sorted(range(len(tops)), key=lambda at: tops[at])
    result = list(tops)
    for before, at in pairwise(order):
        result[at] = max(result[at], result[before] + gap)
    # Positions beyond the bottom push back up.
    floor = 100.0
    for at in reversed(order):
        result[at] = min(result[at], floor)
        floor = result[at] - gap
    return result


def _marked(one: Series) -> list[tuple[float, float]]:
    """Points that have a marker: the ends, the picked one, and every so many between them."""
    last = len(one.points) - 1
    stride = math.ceil(last / (MAX_MARKERS - 1)) or 1
    chosen = {0, *range(last, stride - 1, -stride)}
    return [point for at, point in enumerate(one.points) if at in chosen or point[0] == one.picked]


def _line(points: list[tuple[float, float]]) -> str:
    """SVG path data; empty for a single point, which its marker shows."""
    return path(points) if len(points) > 1 else ""
