"""A paper's table with our figures as text, Markdown and one HTML page, the paper's figures below ours."""

from collections.abc import Iterator
from pathlib import Path

from rubricworks import __version__
from rubricworks.claims.arm_table import markdown_row
from rubricworks.claims.paper_tables import Cell, FilledSection, FilledTable, PaperColumn
from rubricworks.reports.formats import number
from rubricworks.reports.rendering import render

_GAP = 2
_STOOD_IN = "data, judges and peers"
_SIMULATED = f"Simulated: the scene world stood in for {_STOOD_IN}; the trained models are real."


def ours(column: PaperColumn, cell: Cell) -> str:
    """Our figure with its interval; empty where it is missing."""
    if cell.ours is None:
        return ""
    value = number(cell.ours.value, column.places)
    if cell.ours.bounds is None:
        return value
    low, high = (number(bound, column.places) for bound in cell.ours.bounds)
    return f"{value} [{low} to {high}]"


def printed(section: FilledSection, at: int, cell: Cell) -> str:
    """The paper's figure, with as many digits as its column has."""
    figures = [row.cells[at].paper for row in section.rows]
    places = (
        max(len(f"{figure:g}".partition(".")[2]) for figure in figures if figure is not None) if any(figures) else 0
    )
    return number(cell.paper, places)


def missing_notes(table: FilledTable) -> dict[str, str]:
    """What is missing somewhere in the table → the letter that stands for it in cells."""
    reasons = dict.fromkeys(cell.missing for section in table.sections for row in section.rows for cell in row.cells)
    letters = (_letter(at) for at in range(len(reasons)))
    return {reason: next(letters) for reason in reasons if reason}


def text(table: FilledTable) -> str:
    """The table as text: per row ours, with intervals, then the paper's."""
    notes = missing_notes(table)
    lines = [f"{table.name}: {table.title}"]
    for section in table.sections:
        lines += ["", *_grid(table, section, notes)]
    lines += ["", *_legend(table, notes)]
    return "\n".join(lines)


def _grid(table: FilledTable, section: FilledSection, notes: dict[str, str]) -> Iterator[str]:
    rows = [[section.title, *(column.title for column in table.columns)]]
    for row in section.rows:
        cells = zip(table.columns, row.cells, strict=True)
        rows.append([row.label, *(ours(column, cell) or f"({notes[cell.missing]})" for column, cell in cells)])
        rows.append(["  the paper", *(printed(section, at, cell) for at, cell in enumerate(row.cells))])
    widths = [max(len(row[at]) for row in rows) + _GAP for at in range(len(rows[0]))]
    for line in rows:
        yield "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def markdown(table: FilledTable) -> str:
    """The table as Markdown: a cell holds ours, then the paper's in brackets."""
    notes = missing_notes(table)
    lines = [f"# {table.name}: {table.title}", ""]
    for section in table.sections:
        lines += [markdown_row([section.title, *(column.title for column in table.columns)])]
        lines += [markdown_row(["---", *["---:"] * len(table.columns)])]
        for row in section.rows:
            cells = enumerate(zip(table.columns, row.cells, strict=True))
            shown = [
                f"{ours(column, cell) or f'({notes[cell.missing]})'}<br>paper {printed(section, at, cell)}"
                for at, (column, cell) in cells
            ]
            lines.append(markdown_row([row.label, *shown]))
        lines.append("")
    return "\n".join([*lines, *(f"- {line}" for line in _legend(table, notes)), ""])


def page(table: FilledTable) -> str:
    notes = missing_notes(table)
    sections = [
        (
            section.title,
            [
                (
                    row.label,
                    [
                        (
                            ours(column, cell).partition(" ") if cell.ours else (f"({notes[cell.missing]})", "", ""),
                            printed(section, at, cell),
                            cell.missing,
                        )
                        for at, (column, cell) in enumerate(zip(table.columns, row.cells, strict=True))
                    ],
                )
                for row in section.rows
            ],
        )
        for section in table.sections
    ]
    return render(
        "paper_table.html",
        folder=Path(__file__).parent,
        styles=("report.css", "arms.css"),
        title=f"{table.name}: {table.title}",
        kicker="Rubricworks table",
        stood_in=_STOOD_IN if table.simulated else "",
        footer=f"Made by Rubricworks {__version__} from the scores of the runs.",
        columns=[column.title for column in table.columns],
        sections=sections,
        legend=list(_legend(table, notes)),
    )


def _legend(table: FilledTable, notes: dict[str, str]) -> Iterator[str]:
    for reason, letter in notes.items():
        yield f"({letter}) missing: {reason}"
    yield "Ours with 95 % intervals over the samples; figures of a whole corpus have none."
    yield "The paper's figures are of its own data and models."
    if any(column.mean for column in table.columns):
        yield "The interval of a mean over columns is the mean of their bounds."
    if table.simulated:
        yield _SIMULATED
    if table.sources:
        yield f"From {', '.join(table.sources)}"


def _letter(at: int) -> str:
    """a to z, then aa, ab, …"""
    return (_letter(at // 26 - 1) if at >= 26 else "") + chr(ord("a") + at % 26)
