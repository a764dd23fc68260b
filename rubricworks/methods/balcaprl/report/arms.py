"""Table of arms as Markdown, text and one HTML page."""

import textwrap
from pathlib import Path

from rubricworks.evaluation.scoreboard import BASE, LENGTH, WIN
from rubricworks.methods.balcaprl.arm_tables import COLUMNS, LEGEND, ArmRow, ArmTable
from rubricworks.reports.formats import MISSING, number, share
from rubricworks.reports.rendering import render

SIMULATED = (
    "Simulated: images, recaptioner and judges are the scene world's, with programmed faults; the student and its "
    "training are real."
)
_WIDTH = 7


def cell_value(column: str, row: ArmRow) -> str:
    """Format a cell's number; the base model wins half of the comparisons with itself."""
    if column == WIN and row.arm == BASE:
        return share(0.5)
    figure = row.figures.get(column)
    if figure is None:
        return MISSING
    return number(figure.value, 1) if column == LENGTH else share(figure.value)


def cell_interval(column: str, row: ArmRow, places: int = 1) -> str:
    """Format a cell's interval; empty if there is none."""
    figure = row.figures.get(column)
    if figure is None or figure.bounds is None:
        return ""
    low, high = (number(one if column == LENGTH else 100 * one, places) for one in figure.bounds)
    return f"{low}{MISSING}{high}"


def markdown(table: ArmTable) -> str:
    lines = [f"# {table.title}", "", f"`{table.recipe}`, seed {table.seed}, Rubricworks {table.version}.", ""]
    if table.simulated:
        lines += [f"> {SIMULATED}", ""]
    if table.changed:
        lines += [f"Settings changed in the recipe: {'; '.join(f'`{one}`' for one in table.changed)}.", ""]
    lines += [_line(["Model", *COLUMNS.values()]), _line(["---", *["---:"] * len(COLUMNS)])]
    for row in table.rows:
        lines.append(_line([row.label, *(_cell(column, row) for column in COLUMNS)]))
    return "\n".join([*lines, "", LEGEND, ""])


def text(table: ArmTable) -> str:
    """Format the table as text, at most 100 characters wide: per model its numbers, then intervals without decimals."""
    names = {
        "Linguistic": "Writing",
        "Precision": "Prec.",
        "CaptionQA": "Capt.QA",
        "b-CapScore": "b-Cap",
        "Oracle F1": "Oracle",
    }
    width = max(len(row.label) for row in table.rows) + 1
    head = "".join(f"{names.get(name, name)[:_WIDTH]:>{_WIDTH + 1}}" for name in COLUMNS.values())
    lines = [f"{table.title}: {table.recipe}, seed {table.seed}", "", f"{'':<{width}}{head}"]
    for row in table.rows:
        values = "".join(f"{cell_value(column, row):>{_WIDTH + 1}}" for column in COLUMNS)
        intervals = "".join(f"{cell_interval(column, row, 0):>{_WIDTH + 1}}" for column in COLUMNS)
        lines += [f"{row.label:<{width}}{values}", f"{'':<{width}}{intervals}"]
    return "\n".join([*lines, *(textwrap.wrap(SIMULATED, 100) if table.simulated else [])])


def arms_page(table: ArmTable) -> str:
    rows = [
        (row, [(cell_value(column, row), cell_interval(column, row), _reach(column, row, table)) for column in COLUMNS])
        for row in table.rows
    ]
    return render(
        "arms.html",
        folder=Path(__file__).parent,
        styles=("report.css", "arms.css"),
        summary={"run": table.title, "simulated": table.simulated},
        recipe={},
        alarms=[],
        stages=[{"version": table.version}],
        table=table,
        columns=list(COLUMNS.values()),
        rows=rows,
        legend=LEGEND,
    )


def _reach(column: str, row: ArmRow, table: ArmTable) -> float | None:
    """Width of the bar behind a number: percent of the column's largest."""
    numbers = [figure.value for one in table.rows if (figure := one.figures.get(column))]
    value = 0.5 if column == WIN and row.arm == BASE else row.figures[column].value if column in row.figures else None
    largest = max([*numbers, 0.5 if column == WIN else 0.0], default=0.0)
    return None if value is None or not largest else 100 * value / largest


def _cell(column: str, row: ArmRow) -> str:
    interval = cell_interval(column, row)
    return cell_value(column, row) + (f" ({interval})" if interval else "")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
