"""The page of an audit as one HTML file: the chart, RLR³'s table 5, and the worst cases.

Questions, responses and judges' words are foreign text: Jinja escapes all of it, and the page's security policy allows
nothing but its inline styles and images. `audit_figure` is the chart alone, for other pages; it needs `audit.css`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rubricworks.evaluation.audit.summary import AuditSummary, Cell
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTING_NAMES
from rubricworks.reports.audit.cases import BadCase
from rubricworks.reports.audit.chart import bar_chart
from rubricworks.reports.formats import MISSING, share, span
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
        title=title,
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
    rows = [(row.name, *(_entry(one) for one in row.cells)) for row in table_rows(figures)]
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
        if worse := [one.name.lower() for one in row.cells if one.worse]:
            sentences.append(f"{row.name}: worse by more than {100 * WORSE:g} points on {', '.join(worse)}.")
    return sentences


def _worse(mode: str, cells: dict[str, Cell], defaults: dict[str, Cell]) -> bool:
    cell, default = cells.get(mode), defaults.get(mode)
    if cell is None or default is None or cell.average is None or default.average is None:
        return False
    change = cell.average.value - default.average.value
    return (-change if mode == "regular" else change) > WORSE
