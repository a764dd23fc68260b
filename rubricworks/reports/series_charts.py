"""The geometry of charts with several lines over the same steps, each with its name at its end.

In percent of the frame, as in `charts`, whose axes they share.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rubricworks.reports.charts import Tick, frame_of, path, smoothed, thinned


class Series(NamedTuple):
    """One line as it was measured."""

    kind: str
    """Its CSS class, which gives its colour and marker."""
    label: str
    points: Sequence[tuple[float, float]]
    """(step, value), ordered by step."""
    intervals: Sequence[tuple[float, float]] = ()
    """(low, high) of every point."""
    picked: float | None = None
    """The step whose marker stands out."""


class Dot(NamedTuple):
    left: float
    top: float
    picked: bool
    says: str


class Drawn(NamedTuple):
    """One line laid out."""

    kind: str
    label: str
    label_top: float
    line: str
    measured: str | None
    """The line before smoothing; None where it is drawn as measured."""
    band: str | None
    """Outline of the intervals."""
    dots: list[Dot]
    first: float
    last: float


class SeriesChart(NamedTuple):
    title: str
    drawn: list[Drawn]
    level: float | None
    """Where the level line lies."""
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
    """Lay lines out; None if there is nothing to draw.

    Args:
        bounds: lowest and highest value shown.
        start: the first step shown, by default that of the first point.
        level: a level line over all steps, and its name.
        marks: (step, label) of upright lines.
        gap: how far the names are kept apart, in percent of the frame's height.
        smooth: draw a moving average over the measured line, without markers.
    """
    series = [one for one in series if one.points]
    if not series:
        return None
    steps = [x for one in series for x, _ in one.points]
    frame = frame_of((min(steps) if start is None else start, max(steps)), bounds)
    drawn = []
    for one in series:
        xs, ys = zip(*one.points, strict=True)
        line = list(zip(xs, smoothed(ys), strict=True)) if smooth else list(one.points)
        lows = [frame.place(x, low) for x, (low, _) in zip(xs, one.intervals, strict=False)]
        highs = [frame.place(x, high) for x, (_, high) in zip(xs, one.intervals, strict=False)]
        placed = [(frame.place(x, y), x, y) for x, y in one.points]
        drawn.append(
            Drawn(
                kind=one.kind,
                label=one.label,
                label_top=frame.place(*line[-1])[1],
                line=_line([frame.place(*point) for point in thinned(line)]),
                measured=_line([frame.place(*point) for point in thinned(list(one.points))]) if smooth else None,
                band=f"{_line(highs + lows[::-1])}Z" if len(lows) > 1 else None,
                dots=[]
                if smooth
                else [Dot(*at, x == one.picked, f"{one.label}, step {x:g}: {y:.1f}") for at, x, y in placed],
                first=line[0][1],
                last=line[-1][1],
            )
        )
    level_top = frame.place(frame.left, level[0])[1] if level else None
    tops = spread([*(one.label_top for one in drawn), *([level_top] if level_top is not None else [])], gap)
    return SeriesChart(
        title=title,
        drawn=[one._replace(label_top=top) for one, top in zip(drawn, tops, strict=False)],
        level=level_top,
        level_label=Tick(tops[-1], level[1]) if level else None,
        x_ticks=frame.x_ticks,
        y_ticks=frame.y_ticks,
        marks=frame.upright(marks),
    )


def spread(tops: Sequence[float], gap: float) -> list[float]:
    """The places moved apart to at least `gap`, in the same order, as near to where they were as one pass finds."""
    order = sorted(range(len(tops)), key=lambda at: tops[at])
    placed = list(tops)
    for before, at in pairwise(order):
        placed[at] = max(placed[at], placed[before] + gap)
    # What was pushed out at the bottom pushes back up.
    floor = 100.0
    for at in reversed(order):
        placed[at] = min(placed[at], floor)
        floor = placed[at] - gap
    return placed


def _line(points: list[tuple[float, float]]) -> str:
    """Nothing where there is one point: its marker shows it."""
    return path(points) if len(points) > 1 else ""
