"""The page of an audit: the picture first, RLR³'s table 5 under it, then the cases to look at. One HTML file.

Questions, responses and what judges say are foreign text: Jinja escapes all of it, and the page's own security policy
allows nothing but its inline styles and images. `audit_figure` is the picture alone, for pages of their own; it needs
the rules of `audit.css`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from rubricworks.evaluation.audit.summary import AuditSummary, Cell
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, SETTING_NAMES
from rubricworks.reports.audit.cases import BadCase
from rubricworks.reports.audit.chart import bar_chart
from rubricworks.reports.rendering import render

WORSE = 0.02
"""Points by which a setting must be worse than the default to be marked, as in the paper's table."""


class TableCell(NamedTuple):
    """One entry of table 5."""

    name: str
    """Of its column."""
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
        cases: from `audit_cases.worst_cases`.
        title: what the responses are; the judge's name stands in the heading anyway.
        simulated: the questions, and whoever wrote the responses, are of the scene world.
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
    """The bars as safe markup; a sentence where there is nothing to draw."""
    from markupsafe import Markup

    return Markup(render("audit_figure.html", chart=bar_chart(figures)))


def table_rows(figures: AuditSummary) -> list[TableRow]:
    """Settings by columns: accuracy on regular responses, then the false-positive rates."""
    default = figures.settings.get("text", {})
    rows = []
    for setting, cells in figures.settings.items():
        row = [TableCell(MODE_NAMES[mode], cells.get(mode), _worse(mode, cells, default)) for mode in MODE_NAMES]
        rows.append(TableRow(SETTING_NAMES[setting], row))
    return rows


def audit_headline(figures: AuditSummary) -> str:
    """The default setting, or the first that there is, in a sentence."""
    first = next(iter(figures.settings))
    rates = {
        mode: cell.average.value
        for mode in FAILURE_MODES
        if (cell := figures.settings[first].get(mode)) is not None and cell.average is not None
    }
    if not rates:
        return f"{figures.judge} was given no abnormal response that could be judged."
    where = "In the default setting" if first == "text" else f"In the setting “{SETTING_NAMES[first].lower()}”"
    said = [f"{100 * rates[mode]:.1f} % ({MODE_NAMES[mode].lower()})" for mode in sorted(rates, key=lambda m: rates[m])]
    span = f"between {said[0]} and {said[-1]}" if len(said) > 1 else said[0]
    return f"{where}, {figures.judge} credits {span} of what abnormal responses do not deserve."


def audit_sentences(figures: AuditSummary) -> list[str]:
    """Where each other setting is worse than the default."""
    said = []
    for row in table_rows(figures):
        if worse := [one.name.lower() for one in row.cells if one.worse]:
            said.append(f"{row.name}: worse by more than {100 * WORSE:g} points on {', '.join(worse)}.")
    return said


def _worse(mode: str, cells: dict[str, Cell], default: dict[str, Cell]) -> bool:
    here, there = cells.get(mode), default.get(mode)
    if here is None or there is None or here.average is None or there.average is None:
        return False
    change = here.average.value - there.average.value
    return (-change if mode == "regular" else change) > WORSE
