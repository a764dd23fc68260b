"""An audit of a judge as one HTML file and as text: the chart, RLR³'s table 5, and the worst cases.

Questions, responses and judges' words are foreign text: Jinja escapes all of it, and the page's security policy allows
nothing but its inline styles and images. `audit_figure` returns only the chart, for other pages; it needs `audit.css`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rubricworks.evaluation.audit.summary import AuditSummary, Cell, Share
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTING_NAMES
from rubricworks.reports.charts import Tick, nice_ticks
from rubricworks.reports.formats import MISSING, share, span
from rubricworks.reports.judge_audit_cases import BadCase
from rubricworks.reports.parts import Cell as Entry
from rubricworks.reports.parts import Table
from rubricworks.reports.rendering import render, render_part

WORSE = 0.02
"""Difference from the default above which a setting is marked as worse, as in the paper's table."""


class TableCell(NamedTuple):
    """One entry of table 5."""

    name: str
    """Heading of its column."""
    cell: Cell | None
    worse: bool


class TableRow(NamedTuple):
    name: str
    cells: list[TableCell]


def audit_page(
    figures: AuditSummary, cases: Sequence[BadCase] = (), *, title: str = "", simulated: bool = False
) -> str:
    """The whole page.

    Args:
        cases: from `worst_cases`.
        title: a description of the responses; the heading shows the judge's name anyway.
        simulated: the questions and the writers of the responses are the scene world's.
    """
    return render(
        "audit.html",
        figures=figures,
        figure=audit_figure(figures),
        rows=table_rows(figures),
        headline=audit_headline(figures),
        sentences=audit_sentences(figures),
        cases=cases,
        title=figures.judge,
        kicker="Rubricworks failure-mode audit",
        lead=title,
        footer="Made by Rubricworks. Method: RLR³, section 5.5 and appendix B.4.",
        simulated=simulated,
        mode_names=MODE_NAMES,
        styles=("report.css", "audit.css"),
    )


def audit_figure(figures: AuditSummary) -> Any:
    """The bar chart as safe markup; a sentence if there is nothing to draw."""
    return render_part("audit_figure.html", chart=bar_chart(figures))


def table_rows(figures: AuditSummary) -> list[TableRow]:
    """One row per setting: accuracy on regular responses, then the false-positive rates."""
    default = figures.settings.get("text", {})
    rows = []
    for setting, cells in figures.settings.items():
        row = [TableCell(MODE_NAMES[mode], cells.get(mode), _worse(mode, cells, default)) for mode in MODE_NAMES]
        rows.append(TableRow(SETTING_NAMES[setting], row))
    return rows


def audit_table(figures: AuditSummary, caption: str, note: str) -> Table:
    """Table 5 as a part of a block."""
    rows = [(row.name, *(_entry(cell) for cell in row.cells)) for row in table_rows(figures)]
    return Table(("Setting", *MODE_NAMES.values()), rows, caption, note)


def _entry(entry: TableCell) -> Entry | None:
    cell = entry.cell
    unjudged = f"{cell.unjudged} not judged" if cell and cell.unjudged else ""
    if cell is None or cell.average is None:
        return Entry(MISSING, unjudged) if unjudged else None
    parts = " / ".join(share(part.value if part else None) for part in (cell.arguments, cell.credit))
    average = share(cell.average.value) + (f" ({parts})" if cell.arguments or cell.credit else "")
    counted = f"{round(cell.average.count, 1):g} of {cell.average.criteria} criteria"
    bounds = [span(cell.average)] if cell.average.bounds else []
    below = " · ".join([*bounds, counted, *([unjudged] if unjudged else [])])
    return Entry(average, below, "down" if entry.worse else "")


def audit_headline(figures: AuditSummary) -> str:
    """One sentence on the default setting, or on the first one if the default was not audited."""
    first = next(iter(figures.settings))
    rates = {
        mode: cell.average.value
        for mode in FAILURE_MODES
        if (cell := figures.settings[first].get(mode)) is not None and cell.average is not None
    }
    if not rates:
        return f"{figures.judge} was given no abnormal response that could be judged."
    where = "In the default setting" if first == "text" else f"In the setting “{SETTING_NAMES[first].lower()}”"
    texts = [
        f"{100 * rates[mode]:.1f} % ({MODE_NAMES[mode].lower()})" for mode in sorted(rates, key=lambda m: rates[m])
    ]
    span = f"between {texts[0]} and {texts[-1]}" if len(texts) > 1 else texts[0]
    return f"{where}, {figures.judge} credits {span} of what abnormal responses do not deserve."


def audit_sentences(figures: AuditSummary) -> list[str]:
    """One sentence per setting that is worse than the default: the columns concerned."""
    sentences = []
    for row in table_rows(figures):
        if worse := [cell.name.lower() for cell in row.cells if cell.worse]:
            sentences.append(f"{row.name}: worse by more than {100 * WORSE:g} points on {', '.join(worse)}.")
    return sentences


def _worse(mode: str, cells: dict[str, Cell], defaults: dict[str, Cell]) -> bool:
    cell, default = cells.get(mode), defaults.get(mode)
    if cell is None or default is None or cell.average is None or default.average is None:
        return False
    change = cell.average.value - default.average.value
    return (-change if mode == "regular" else change) > WORSE


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
    tops = [100 * (rate.high or rate.value) for s in settings for m in modes if (rate := _share(figures, s, m))]
    ticks = nice_ticks(0.0, max(_MIN_TOP, *tops))
    top, slot = ticks[-1], 100 / len(modes)
    width = slot * (1 - _GAP) / len(settings)
    groups = []
    for number, mode in enumerate(modes):
        start = slot * (number + _GAP / 2)
        bars = [
            _bar(setting, mode, rate, left=start + place * width, width=width, top=top)
            for place, setting in enumerate(settings)
            if (rate := _share(figures, setting, mode)) is not None
        ]
        groups.append(Group(MODE_NAMES[mode], slot * (number + 0.5), slot, bars))
    return BarChart(
        groups,
        [Tick(100 - 100 * tick / top, f"{tick:g}\N{NARROW NO-BREAK SPACE}%") for tick in ticks],
        [(setting, SETTING_NAMES[setting]) for setting in settings],
    )


def _bar(setting: str, mode: str, rate: Share, *, left: float, width: float, top: float) -> Bar:
    def down(value: float) -> float:
        return 100 - 100 * min(100 * value / top, 1.0)

    bounds = rate.bounds
    interval = f", {100 * bounds[0]:.1f} to {100 * bounds[1]:.1f}" if bounds else ""
    return Bar(
        setting=setting,
        left=left + 0.06 * width,
        width=0.88 * width,
        top=down(rate.value),
        height=100 - down(rate.value),
        whisker=(down(bounds[1]), down(bounds[0])) if bounds else None,
        percent=100 * rate.value,
        text=(
            f"{SETTING_NAMES[setting]}, {MODE_NAMES[mode].lower()}: {100 * rate.value:.1f} %{interval}; "
            f"{rate.count:g} of {rate.criteria} criteria"
        ),
    )


def _share(figures: AuditSummary, setting: str, mode: str) -> Share | None:
    cell = figures.settings[setting].get(mode)
    return cell.average if cell else None


_COLUMN = 17
_SHORT = {
    "regular": "Regular",
    "no_final_answer": "No final",
    "irrelevant": "Irrelevant",
    "wrong_but_plausible": "Plausible",
    "adversarial": "Adversarial",
}
LEGEND = """\
percent: average (arguments / credit), then the 95 % interval and the criteria that it is taken over.
Regular: accuracy against the labels. The others: credit given where none is deserved. *: more than
2 points worse than the default."""


def audit_text(figures: AuditSummary) -> str:
    """Three lines per setting, the legend, and the counts of missing responses and unjudged criteria."""
    lines = [f"{figures.judge}", "", f"{'':<15}" + "".join(f"{_SHORT[mode]:>{_COLUMN}}" for mode in MODE_NAMES)]
    for row in table_rows(figures):
        lines.append(f"{row.name:<15}" + "".join(f"{_average(entry):>{_COLUMN}}" for entry in row.cells))
        if any(entry.cell and (entry.cell.arguments or entry.cell.credit) for entry in row.cells):
            lines.append(" " * 15 + "".join(f"{_parts(entry.cell):>{_COLUMN}}" for entry in row.cells))
        lines.append(" " * 15 + "".join(f"{_bounds_text(entry.cell):>{_COLUMN}}" for entry in row.cells))
    lines += ["", LEGEND]
    unjudged = sum(cell.unjudged for modes in figures.settings.values() for cell in modes.values())
    if unjudged:
        lines.append(f"{unjudged:,} criteria could not be judged; they are in no figure.")
    lines += [
        f"{MODE_NAMES[mode]}: only {counts.found} of {counts.wanted} responses passed the checks."
        for mode, counts in figures.short_categories.items()
    ]
    return "\n".join(line.rstrip() for line in lines)


def _average(cell: TableCell) -> str:
    if cell.cell is None or cell.cell.average is None:
        return "-"
    return f"{100 * cell.cell.average.value:.1f}{'*' if cell.worse else ' '}"


def _parts(cell: Cell | None) -> str:
    if cell is None or cell.average is None or not (cell.arguments or cell.credit):
        return ""
    return f"({_percent(cell.arguments)} / {_percent(cell.credit)})"


def _percent(part: Share | None) -> str:
    return "-" if part is None else f"{100 * part.value:.1f}"


def _bounds_text(cell: Cell | None) -> str:
    if cell is None or cell.average is None:
        return ""
    bounds = "-".join(f"{100 * bound:.0f}" for bound in cell.average.bounds or ())
    return f"{bounds} n={cell.average.criteria}"
