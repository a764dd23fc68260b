"""The geometry of an audit's figure: one bar per failure mode and setting, with whiskers, in percent of the frame."""

from typing import NamedTuple

from rubricworks.evaluation.audit.summary import AuditSummary, Share
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTING_NAMES
from rubricworks.reports.charts import Tick, nice_ticks

_GAP = 0.28
"""Share of a group's width between it and the next."""
_MIN_TOP = 10.0


class Bar(NamedTuple):
    """One rate; positions and sizes are in percent of the frame, from its top left."""

    setting: str
    left: float
    width: float
    top: float
    height: float
    whisker: tuple[float, float] | None
    """Ends of the interval, top first."""
    percent: float
    text: str
    """The rate in words."""


class Group(NamedTuple):
    """The bars of one failure mode."""

    name: str
    centre: float
    width: float
    bars: list[Bar]


class BarChart(NamedTuple):
    groups: list[Group]
    ticks: list[Tick]
    settings: list[tuple[str, str]]
    """(setting, its name), in the order of the bars."""


def bar_chart(figures: AuditSummary) -> BarChart | None:
    """Lay out the average false-positive rates; None if there are none."""
    settings = list(figures.settings)
    modes = [mode for mode in FAILURE_MODES if any(_share(figures, setting, mode) for setting in settings)]
    if not modes:
        return None
    tops = [100 * (share.high or share.value) for s in settings for m in modes if (share := _share(figures, s, m))]
    ticks = nice_ticks(0.0, max(_MIN_TOP, *tops))
    top, slot = ticks[-1], 100 / len(modes)
    width = slot * (1 - _GAP) / len(settings)
    groups = []
    for number, mode in enumerate(modes):
        start = slot * (number + _GAP / 2)
        bars = [
            _bar(setting, mode, share, left=start + place * width, width=width, top=top)
            for place, setting in enumerate(settings)
            if (share := _share(figures, setting, mode)) is not None
        ]
        groups.append(Group(MODE_NAMES[mode], slot * (number + 0.5), slot, bars))
    return BarChart(
        groups,
        [Tick(100 - 100 * tick / top, f"{tick:g}\N{NARROW NO-BREAK SPACE}%") for tick in ticks],
        [(setting, SETTING_NAMES[setting]) for setting in settings],
    )


def _bar(setting: str, mode: str, share: Share, *, left: float, width: float, top: float) -> Bar:
    def down(value: float) -> float:
        return 100 - 100 * min(100 * value / top, 1.0)

    bounds = share.bounds
    interval = f", {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}" if bounds else ""
    return Bar(
        setting=setting,
        left=left + 0.06 * width,
        width=0.88 * width,
        top=down(share.value),
        height=100 - down(share.value),
        whisker=(down(bounds[1]), down(bounds[0])) if bounds else None,
        percent=100 * share.value,
        text=(
            f"{SETTING_NAMES[setting]}, {MODE_NAMES[mode].lower()}: {100 * share.value:.1f} %{interval}; "
            f"{share.count:g} of {share.criteria} criteria"
        ),
    )


def _share(figures: AuditSummary, setting: str, mode: str) -> Share | None:
    cell = figures.settings[setting].get(mode)
    return cell.average if cell else None
