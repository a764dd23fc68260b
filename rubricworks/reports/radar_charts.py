"""Geometry of radar charts: one axis per figure, one outline per model, in a frame of 100 x 100.

Every axis runs from 0 in the centre to 1 at its end; a figure with another range is scaled by the lowest and highest
value of the models (`scaled`), and its axis says so.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

_RADIUS = 36.0
_CENTRE = 50.0
RINGS = (0.25, 0.5, 0.75, 1.0)


class Axis(NamedTuple):
    label: str
    left: float
    top: float
    """Place of the label, in percent of the frame."""
    side: str
    """start | middle | end: the label's side towards the chart."""


class Outline(NamedTuple):
    kind: str
    """CSS class, which determines the colour."""
    label: str
    path: str
    dots: list[tuple[float, float, str]]
    """(left, top, text) of each value."""


class RadarChart(NamedTuple):
    title: str
    axes: list[Axis]
    rings: list[str]
    spokes: list[tuple[float, float]]
    outlines: list[Outline]
    note: str = ""


def radar_chart(
    title: str, axes: Sequence[str], outlines: Sequence[tuple[str, Sequence[float]]], note: str = ""
) -> RadarChart | None:
    """Lay out a radar chart; None with fewer than three axes.

    Args:
        outlines: label and values in [0, 1] of each model, one per axis.
    """
    if len(axes) < 3 or not outlines:
        return None
    angles = [2 * math.pi * number / len(axes) - math.pi / 2 for number in range(len(axes))]
    return RadarChart(
        title=title,
        axes=[_axis(label, angle) for label, angle in zip(axes, angles, strict=True)],
        rings=[_outline([_place(angle, ring) for angle in angles]) for ring in RINGS],
        spokes=[_place(angle, 1.0) for angle in angles],
        outlines=[
            Outline(
                kind=f"m{number % 6}",
                label=label,
                path=_outline([_place(angle, value) for angle, value in zip(angles, values, strict=True)]),
                dots=[
                    (*_place(angle, value), f"{label}, {axis}: {value:.2f}")
                    for axis, angle, value in zip(axes, angles, values, strict=True)
                ],
            )
            for number, (label, values) in enumerate(outlines)
        ],
        note=note,
    )


def _place(angle: float, value: float) -> tuple[float, float]:
    reach = _RADIUS * max(0.0, min(1.0, value))
    return round(_CENTRE + reach * math.cos(angle), 2), round(_CENTRE + reach * math.sin(angle), 2)


def _axis(label: str, angle: float) -> Axis:
    left, top = _CENTRE + 41 * math.cos(angle), _CENTRE + 41 * math.sin(angle)
    side = "middle" if abs(left - _CENTRE) < 8 else "start" if left > _CENTRE else "end"
    return Axis(label, round(left, 2), round(top, 2), side)


def _outline(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{left} {top}" for left, top in points) + "Z"
