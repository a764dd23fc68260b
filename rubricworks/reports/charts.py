"""Geometry of line charts, in percent of their frame: lines over the same steps, each with its name at its end.

The frame stretches with the page, so lines are SVG in percent and labels are text at percent positions: they keep their
size on a phone, and take their colours from the page's light or dark scheme.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rubricworks.metrics import Interval
from rubricworks.reports.formats import number

MAX_POINTS = 240
"""Longer lines are averaged down to this many points: a screen cannot show more."""
MAX_MARKERS = 16
"""Markers of a line: more of them run into one another on a phone."""
_MIN_SPAN = 10.0
"""Smallest range of a chart of shares in percentage points, so that differences of one or two do not look large."""


class Tick(NamedTuple):
    at: float
    label: str


class Frame(NamedTuple):
    """A chart's frame: the ranges of both axes, and their ticks."""

    left: float
    right: float
    low: float
    high: float
    x_ticks: list[Tick]
    y_ticks: list[Tick]

    def place(self, x: float, y: float) -> tuple[float, float]:
        """(left, top) of a point in percent of the frame."""
        across = 100 * (x - self.left) / (self.right - self.left)
        return across, 100 - 100 * (y - self.low) / (self.high - self.low)

    def mark_ticks(self, marks: Sequence[tuple[float, str]]) -> list[Tick]:
        """Ticks of vertical lines at steps; a step outside the frame is moved to its edge."""
        return [Tick(min(100.0, max(0.0, self.place(x, self.low)[0])), label) for x, label in marks]


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
    """Ends of the line, smoothed if it is."""


class End(NamedTuple):
    """Figure of one line in the heading of its chart."""

    kind: str
    label: str
    text: str


class SeriesChart(NamedTuple):
    title: str
    lines: list[LineLayout]
    level: float | None
    """Top of the horizontal line."""
    level_label: Tick | None
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Tick]
    ends: list[End]
    says: str
    """The chart in words, for those who do not see it."""


def series_chart(
    title: str,
    series: Sequence[Series],
    *,
    bounds: tuple[float, float] | None = None,
    start: float | None = None,
    level: tuple[float, str] | None = None,
    marks: Sequence[tuple[float, str]] = (),
    gap: float = 9.0,
    smooth: bool = False,
    places: int = 2,
) -> SeriesChart | None:
    """Lay out several lines; None if there are no points.

    Args:
        bounds: lowest and highest value of the frame; by default those of the values, from 0 if they are near it.
        start: first step of the frame, by default that of the first point.
        level: value and name of a horizontal line.
        marks: (step, label) of vertical lines.
        gap: smallest distance between the lines' names, in percent of the frame's height.
        smooth: draw a moving average over the measured line, without markers.
        places: decimals of the lines' ends in the heading.
    """
    series = [line for line in series if line.points]
    if not series:
        return None
    steps = [x for line in series for x, _ in line.points]
    values = bounds or value_bounds([y for line in series for _, y in line.points])
    frame = frame_of((min(steps) if start is None else start, max(steps)), values)
    lines = [_layout(line, frame, smooth=smooth) for line in series]
    level_top = frame.place(frame.left, level[0])[1] if level else None
    tops = spread([*(line.label_top for line in lines), *([level_top] if level_top is not None else [])], gap)
    ends = [End(line.kind, line.label, f"{number(line.first, places)} → {number(line.last, places)}") for line in lines]
    spans = ", ".join(
        f"{line.label} from {number(line.first, places)} to {number(line.last, places)}".strip() for line in lines
    )
    return SeriesChart(
        title=title,
        lines=[line._replace(label_top=top) for line, top in zip(lines, tops, strict=False)],
        level=level_top,
        level_label=Tick(tops[-1], level[1]) if level else None,
        x_ticks=frame.x_ticks,
        y_ticks=frame.y_ticks,
        marks=frame.mark_ticks(marks),
        ends=ends,
        says=f"{title} over training steps{':' if len(lines) > 1 else ','} {spans}",
    )


def curve(
    title: str,
    points: Sequence[tuple[float, float]],
    *,
    bounds: tuple[float, float] | None = None,
    marks: Sequence[tuple[float, str]] = (),
    places: int = 2,
) -> SeriesChart | None:
    """Lay out one line without a name, as measured and smoothed; None if there are no points."""
    return series_chart(title, [Series("policy", "", points)], bounds=bounds, marks=marks, smooth=True, places=places)


def milestone_chart(
    title: str,
    base: Interval | None,
    curves: Sequence["MilestoneCurve"],
    *,
    intervals: bool = True,
    gap: float = 7.0,
    base_label: str = "base",
) -> SeriesChart | None:
    """Lay out shares over the milestones of trainings, in percent, with the base model as a level.

    The heading has the base's share and each model's at its best milestone, or else at its last one.
    """
    series, ends = [], [End("base", base_label, number(100 * base.value, 1))] if base else []
    percents = [100 * base.value] if base else []
    for milestones in curves:
        points = [(float(step), 100 * share.value) for step, share in milestones.points]
        bounds = [_percents(share) for _, share in milestones.points] if intervals else []
        series.append(
            Series(
                milestones.kind,
                milestones.label,
                points,
                bounds,
                None if milestones.best is None else float(milestones.best),
            )
        )
        percents += [value for _, value in points] + [bound for interval in bounds for bound in interval]
        shown = [value for step, value in points if step == milestones.best] or [value for _, value in points[-1:]]
        ends += [End(milestones.kind, milestones.label, number(value, 1)) for value in shown]
    level = (100 * base.value, "base") if base else None
    chart = series_chart(title, series, bounds=_share_bounds(percents), start=0.0, level=level, gap=gap)
    heading = ", ".join(f"{end.label} {end.text}" for end in ends)
    return chart._replace(ends=ends, says=f"{title}, percent over milestones: {heading}") if chart else None


class MilestoneCurve(NamedTuple):
    """Shares of one trained model."""

    kind: str
    """CSS class, which determines colour and marker."""
    label: str
    points: Sequence[tuple[int, Interval]]
    """(step, share), ordered by step."""
    best: int | None


def _percents(share: Interval) -> tuple[float, float]:
    """The bounds in percent; the value twice if there are none."""
    low, high = share.bounds or (share.value, share.value)
    return 100 * low, 100 * high


def _share_bounds(percents: Sequence[float]) -> tuple[float, float]:
    low, high = min(percents, default=0.0), max(percents, default=100.0)
    missing = max(0.0, _MIN_SPAN - (high - low)) / 2
    low, high = max(0.0, low - missing), min(100.0, high + missing)
    # At an edge the whole extension goes to the other side.
    return max(0.0, min(low, high - _MIN_SPAN)), min(100.0, max(high, low + _MIN_SPAN))


def _layout(series: Series, frame: Frame, *, smooth: bool) -> LineLayout:
    xs, ys = zip(*series.points, strict=True)
    line = list(zip(xs, moving_average(ys), strict=True)) if smooth else list(series.points)
    lows = [frame.place(x, low) for x, (low, _) in zip(xs, series.intervals, strict=False)]
    highs = [frame.place(x, high) for x, (_, high) in zip(xs, series.intervals, strict=False)]
    dots = [
        Dot(*frame.place(x, y), x == series.picked, f"{series.label}, step {x:g}: {y:.1f}") for x, y in _marked(series)
    ]
    draw = path if smooth else _line  # a smoothed line has no markers, so that a single point is drawn as a line
    return LineLayout(
        kind=series.kind,
        label=series.label,
        label_top=frame.place(*line[-1])[1],
        line=draw([frame.place(*point) for point in downsample(line)]),
        measured=draw([frame.place(*point) for point in downsample(list(series.points))]) if smooth else None,
        band=f"{_line(highs + lows[::-1])}Z" if len(lows) > 1 else None,
        dots=[] if smooth else dots,
        first=line[0][1],
        last=line[-1][1],
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


def _marked(series: Series) -> list[tuple[float, float]]:
    """Points with a marker: the ends, the selected one, and some at regular distances between them."""
    last = len(series.points) - 1
    stride = math.ceil(last / (MAX_MARKERS - 1)) or 1
    chosen = {0, *range(last, stride - 1, -stride)}
    return [point for at, point in enumerate(series.points) if at in chosen or point[0] == series.picked]


def _line(points: list[tuple[float, float]]) -> str:
    """SVG path data; empty for a single point, which its marker shows."""
    return path(points) if len(points) > 1 else ""


def frame_of(steps: tuple[float, float], bounds: tuple[float, float]) -> Frame:
    """The frame from the first to the last step and from the lowest to the highest value."""
    low, high = bounds
    values = nice_ticks(low, high)
    left, right = steps[0], steps[1] if steps[1] > steps[0] else steps[0] + 1
    frame = Frame(left, right, min(low, values[0]), max(high, values[-1]), [], [])
    # Steps are whole numbers: there is none at 1.2.
    is_whole = float(left).is_integer() and float(right).is_integer()
    steps_shown = [x for x in nice_ticks(left, right, count=5) if left <= x <= right and not (is_whole and x % 1)]
    x_ticks = [
        Tick(frame.place(x, frame.low)[0], label)
        for x, label in zip(steps_shown, tick_labels(steps_shown), strict=True)
    ]
    y_ticks = [Tick(frame.place(left, y)[1], label) for y, label in zip(values, tick_labels(values), strict=True)]
    return frame._replace(x_ticks=x_ticks, y_ticks=y_ticks)


def tick_labels(values: Sequence[float]) -> list[str]:
    """Labels of an axis: from 10,000 on in thousands (k), from 1,000,000 on in millions (M)."""
    largest = max((abs(value) for value in values), default=0.0)
    size, unit = (1e6, "M") if largest >= 1e6 else (1e3, "k") if largest >= 1e4 else (1.0, "")
    return [f"{value / size:g}{unit}" if value else "0" for value in values]


def moving_average(values: Sequence[float]) -> list[float]:
    """Centred moving average over a twentieth of the line on each side, narrower towards the ends."""
    reach = len(values) // 20
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    result = []
    for at in range(len(values)):
        near = min(reach, at, len(values) - 1 - at) if reach else 0
        # At the ends one side is empty; half a window there keeps the line from ending in one noisy step.
        start, stop = max(0, at - max(near, reach // 2)), min(len(values), at + max(near, reach // 2) + 1)
        result.append((sums[stop] - sums[start]) / (stop - start))
    return result


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round numbers that cover [low, high]."""
    if not high > low:
        high = low + 1
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    start, stop = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(start, stop + 1)]


def value_bounds(values: Sequence[float]) -> tuple[float, float]:
    """The lowest and highest value, from 0 if they are near it; a constant has a tenth of itself on either side."""
    low, high = min(values), max(values)
    if low >= 0 and low < (high - low) * 2:
        low = 0.0
    if high > low:
        return low, high
    reach = abs(low) / 10
    return (low - reach, low + reach) if reach else (0.0, 1.0)


def downsample(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Average neighbouring points down to MAX_POINTS; the first and last point stay unchanged."""
    width = math.ceil(len(points) / MAX_POINTS)
    if width == 1:
        return points
    groups = [points[start : start + width] for start in range(0, len(points), width)]
    means = [(sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group)) for group in groups]
    return [points[0], *means[1:-1], points[-1]]


def path(points: list[tuple[float, float]]) -> str:
    """SVG path data of a line; a horizontal line for a single point."""
    if len(points) == 1:
        return f"M0 {points[0][1]:.2f}L100 {points[0][1]:.2f}"
    return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in points)
