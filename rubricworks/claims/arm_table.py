"""Table of a recipe's arms with intervals, as JSON, Markdown, text and one HTML page.

A method says which figures are its columns, and reads the rows of its runs.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.claims.arms import OWN, ArmDocuments, ArmRuns
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.reports.formats import MISSING, number, share
from rubricworks.reports.rendering import render

_WIDTH = 7


class ArmRow(BaseModel):
    """Scores of one model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arm: str
    """`base`, `own` or the arm's name."""
    label: str
    figures: dict[str, Interval]
    """Figure → mean; figures that were not measured are missing."""


class ArmTable(BaseModel):
    """Table that `rubricworks arms` writes as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    recipe: str
    seed: int
    changed: tuple[str, ...]
    """Settings that all runs changed in the recipe."""
    simulated: bool
    """True if the scene world stood in for images and judges."""
    version: str
    """Version of rubricworks."""
    rows: tuple[ArmRow, ...]


class Column(NamedTuple):
    """Figure of a method's tables."""

    title: str
    short: str = ""
    """Title in the text form, at most seven letters; by default the title."""
    plain: bool = False
    """Number as it is; others are shares, in percent."""
    of_base: float | None = None
    """The base model's value, where it follows from the definition."""


class ArmForm(NamedTuple):
    """Form of a method's tables."""

    columns: Mapping[str, Column]
    """Figure → its column, in order."""
    legend: str
    simulated: str
    """Sentence on what the scene world stood in for."""
    stood_in: str
    """The same in a few nouns, for the page."""


def read_arms(
    runs: Mapping[str, Path], read: Callable[[Path], Scoreboard], start: Callable[[Scoreboard], object]
) -> dict[str, Scoreboard]:
    """Read the scores of arms that began with one base model.

    Args:
        runs: row → folder of its run; includes `own`, whose base model all runs start from.
        read: reads the scores of a run.
        start: what the base model's scores must agree in.
    Raises:
        UserError: a run is not finished, is damaged, or started from another base model.
    """
    boards = {arm: read(run) for arm, run in runs.items()}
    own = start(boards[OWN])
    for arm, board in boards.items():
        if start(board) != own:
            raise UserError(
                f"{runs[arm]}: its base model does not answer as that of {runs[OWN]} does; make the run again with "
                f"--reuse {runs[OWN].name}"
            )
    return boards


def arm_rows(
    boards: Mapping[str, Scoreboard],
    figures: Callable[[Scoreboard, str], dict[str, Interval]],
    label: Callable[[str], str],
) -> tuple[ArmRow, ...]:
    """Rows of the base model and of every arm's policy.

    Args:
        figures: figures of a model, the base or the policy, of a run.
        label: label of an arm, or of `base`.
    """
    rows = [ArmRow(arm=BASE, label=label(BASE), figures=figures(boards[OWN], BASE))]
    rows += [ArmRow(arm=arm, label=label(arm), figures=figures(board, POLICY)) for arm, board in boards.items()]
    return tuple(rows)


def select_rows(rows: Sequence[ArmRow], arms: Sequence[str]) -> tuple[ArmRow, ...]:
    """Return the rows of the base model and of the given arms, in that order."""
    by_arm = {row.arm: row for row in rows}
    return tuple(by_arm[arm] for arm in (BASE, *arms))


def write_documents(runs: ArmRuns, rows: Sequence[ArmRow], form: ArmForm) -> ArmDocuments:
    """Write the table of the runs in each form.

    Args:
        rows: of the base model and of all runs.
    """
    table = ArmTable(
        title=runs.title,
        recipe=runs.recipe,
        seed=runs.seed,
        changed=runs.changed,
        simulated=runs.simulated,
        version=runs.version,
        rows=select_rows(rows, runs.rows),
    )
    json = table.model_dump_json(indent=2) + "\n"
    return ArmDocuments(text=text(table, form), json=json, markdown=markdown(table, form), html=arms_page(table, form))


def cell_value(column: Column, figure: str, row: ArmRow) -> str:
    """Format a cell's number."""
    if row.arm == BASE and column.of_base is not None:
        return share(column.of_base)
    mean = row.figures.get(figure)
    if mean is None:
        return MISSING
    return number(mean.value, 1) if column.plain else share(mean.value)


def cell_interval(column: Column, figure: str, row: ArmRow, places: int = 1) -> str:
    """Format a cell's interval; empty if there is none."""
    mean = row.figures.get(figure)
    if mean is None or mean.bounds is None:
        return ""
    low, high = (number(one if column.plain else 100 * one, places) for one in mean.bounds)
    return f"{low}{MISSING}{high}"


def markdown(table: ArmTable, form: ArmForm) -> str:
    lines = [f"# {table.title}", "", f"`{table.recipe}`, seed {table.seed}, Rubricworks {table.version}.", ""]
    if table.simulated:
        lines += [f"> {form.simulated}", ""]
    if table.changed:
        lines += [f"Settings changed in the recipe: {'; '.join(f'`{one}`' for one in table.changed)}.", ""]
    titles = [column.title for column in form.columns.values()]
    lines += [_line(["Model", *titles]), _line(["---", *["---:"] * len(titles)])]
    for row in table.rows:
        lines.append(_line([row.label, *(_cell(column, figure, row) for figure, column in form.columns.items())]))
    return "\n".join([*lines, "", form.legend, ""])


def text(table: ArmTable, form: ArmForm) -> str:
    """Format the table as text, at most 100 characters wide: per model its numbers, then intervals without decimals."""
    width = max(len(row.label) for row in table.rows) + 1
    head = "".join(f"{(column.short or column.title)[:_WIDTH]:>{_WIDTH + 1}}" for column in form.columns.values())
    lines = [f"{table.title}: {table.recipe}, seed {table.seed}", "", f"{'':<{width}}{head}"]
    for row in table.rows:
        cells = list(form.columns.items())
        values = "".join(f"{cell_value(column, figure, row):>{_WIDTH + 1}}" for figure, column in cells)
        intervals = "".join(f"{cell_interval(column, figure, row, 0):>{_WIDTH + 1}}" for figure, column in cells)
        lines += [f"{row.label:<{width}}{values}", f"{'':<{width}}{intervals}"]
    return "\n".join([*lines, *(textwrap.wrap(form.simulated, 100) if table.simulated else [])])


def arms_page(table: ArmTable, form: ArmForm) -> str:
    def cell(figure: str, column: Column, row: ArmRow) -> tuple[str, str, float | None]:
        return cell_value(column, figure, row), cell_interval(column, figure, row), _reach(column, figure, row, table)

    rows = [(row, [cell(figure, column, row) for figure, column in form.columns.items()]) for row in table.rows]
    return render(
        "arms.html",
        folder=Path(__file__).parent,
        styles=("report.css", "arms.css"),
        summary={"run": table.title, "simulated": table.simulated},
        recipe={},
        alarms=[],
        stages=[{"version": table.version}],
        table=table,
        columns=[column.title for column in form.columns.values()],
        rows=rows,
        legend=form.legend,
        stood_in=form.stood_in,
    )


def _reach(column: Column, figure: str, row: ArmRow, table: ArmTable) -> float | None:
    """Width of the bar behind a number: percent of the column's largest."""
    numbers = [mean.value for one in table.rows if (mean := one.figures.get(figure))]
    of_base = column.of_base
    value = row.figures[figure].value if figure in row.figures else None
    if row.arm == BASE and of_base is not None:
        value = of_base
    largest = max([*numbers, of_base or 0.0], default=0.0)
    return None if value is None or not largest else 100 * value / largest


def _cell(column: Column, figure: str, row: ArmRow) -> str:
    interval = cell_interval(column, figure, row)
    return cell_value(column, figure, row) + (f" ({interval})" if interval else "")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
