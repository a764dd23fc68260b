"""An audit's figures as text: RLR³'s table 5, at most 100 characters wide."""

from rubricworks.evaluation.audit.summary import AuditSummary, Cell, Share
from rubricworks.evaluation.audit.values import MODE_NAMES
from rubricworks.reports.audit.page import TableCell, table_rows

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
        lines.append(f"{row.name:<15}" + "".join(f"{_average(one):>{_COLUMN}}" for one in row.cells))
        if any(one.cell and (one.cell.arguments or one.cell.credit) for one in row.cells):
            lines.append(" " * 15 + "".join(f"{_parts(one.cell):>{_COLUMN}}" for one in row.cells))
        lines.append(" " * 15 + "".join(f"{_interval(one.cell):>{_COLUMN}}" for one in row.cells))
    lines += ["", LEGEND]
    unjudged = sum(cell.unjudged for modes in figures.settings.values() for cell in modes.values())
    if unjudged:
        lines.append(f"{unjudged:,} criteria could not be judged; they are in no figure.")
    lines += [
        f"{MODE_NAMES[mode]}: only {one.found} of {one.wanted} responses passed the checks."
        for mode, one in figures.short_categories.items()
    ]
    return "\n".join(line.rstrip() for line in lines)


def _average(one: TableCell) -> str:
    if one.cell is None or one.cell.average is None:
        return "-"
    return f"{100 * one.cell.average.value:.1f}{'*' if one.worse else ' '}"


def _parts(cell: Cell | None) -> str:
    if cell is None or cell.average is None or not (cell.arguments or cell.credit):
        return ""
    return f"({_percent(cell.arguments)} / {_percent(cell.credit)})"


def _percent(share: Share | None) -> str:
    return "-" if share is None else f"{100 * share.value:.1f}"


def _interval(cell: Cell | None) -> str:
    if cell is None or cell.average is None:
        return ""
    share = cell.average
    bounds = "-".join(f"{100 * bound:.0f}" for bound in share.bounds or ())
    return f"{bounds} n={share.criteria}"
