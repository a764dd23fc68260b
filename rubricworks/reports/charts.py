"""Geometry of line charts, in percent of their frame.

The frame stretches with the page, so lines are SVG in percent and labels are text at percent positions: they keep their
size on a phone, and take their colours from the page's light or dark scheme.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

MAX_POINTS = 240
"""Longer lines are averaged down to this many points: a screen cannot show more."""


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


class LineChart(NamedTuple):
    """One line over steps, as measured and smoothed."""

    title: str
    measured: str
    """SVG path data in a frame of 100 x 100."""
    smoothed: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Tick]
    first: float
    last: float
    """Ends of the smoothed line."""
    end: tuple[float, float]
    """(left, top) of the smoothed line's end, in percent of the frame."""


def line_chart(
    title: str,
    points: Sequence[tuple[float, float]],
    *,
    bounds: tuple[float, float] | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> LineChart | None:
    """Lay out one line; None if there are no points.

    Args:
        points: (step, value), ordered by step.
        bounds: lowest and highest value of the frame; by default those of the values, from 0 if they are near it.
        marks: (step, label) of vertical lines.
    """
    if not points:
        return None
    xs, ys = zip(*points, strict=True)
    frame = frame_of((xs[0], xs[-1]), bounds or value_bounds(ys))
    smooth = moving_average(ys)
    return LineChart(
        title=title,
        measured=path([frame.place(*point) for point in downsample(list(zip(xs, ys, strict=True)))]),
        smoothed=path([frame.place(*point) for point in downsample(list(zip(xs, smooth, strict=True)))]),
        x_ticks=frame.x_ticks,
        y_ticks=frame.y_ticks,
        marks=frame.mark_ticks(marks),
        first=smooth[0],
        last=smooth[-1],
        end=frame.place(xs[-1], smooth[-1]),
    )


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
    """The lowest and highest value, from 0 if they are near it."""
    low, high = min(values), max(values)
    if low >= 0 and low < (high - low) * 2:
        low = 0.0
    return (low, high) if high > low else (low, low + (abs(low) or 1.0))


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
