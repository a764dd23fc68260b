"""Table of a recipe's arms with intervals, as JSON, Markdown, text and one HTML page.

`arm_tables.yaml` says which rows, labels and columns the tables of each paper have. All policies of a table start from
the same base model and respond to the same held-out samples. Intervals are over those samples and do not cover the
variance between trainings; `rubricworks claims` runs several seeds.
"""

import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import BASE, LENGTH, POLICY, Scoreboard
from rubricworks.metrics import Interval
from rubricworks.reports.formats import MISSING, number, share
from rubricworks.reports.rendering import render
from rubricworks.strict_yaml import parse_yaml

OWN = "own"
"""The recipe's own run, in the place of an arm."""
_FILE = Path(__file__).parent / "arm_tables.yaml"
_WIDTH = 7


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Column(_Data):
    """Figure of a method's tables."""

    title: str
    short: str = ""
    """Title in the text form, at most seven letters; by default the title."""
    plain: bool = False
    """Number as it is; others are shares, in percent."""
    of_base: float | None = None
    """The base model's value, where it follows from the definition."""
    gain_of: str = ""
    """Figure whose gain over the base this is."""
    task_of: str = ""
    """Figure whose mean in the task of the column's name this is."""
    own_measure: bool = False
    """Leave it out of an arm in whose run the base model has another value, because it is measured otherwise there."""


class Rows(_Data):
    title: str
    rows: tuple[str, ...]
    """Below the base model's, in the paper's order; `*` at an end matches any arm that begins so."""


class ArmForm(_Data):
    """Tables of arms of one pipeline."""

    tables: dict[str, Rows] = {}
    default: str | None = None
    """Table that a recipe is compared in when neither a table nor an arm is named."""
    labels: dict[str, str] = {}
    """Arm, `own` or `base` → its name in the tables."""
    columns: dict[str, Column]
    """Figure → its column, in order."""
    same_base: tuple[str, ...] = (LENGTH,)
    """Figures of the base model by which runs of one start are told."""
    legend: str = "Scores in percent, length in tokens, 95 % intervals over the held-out samples."
    stood_in: str = "data and models"
    """What the scene world stands in for."""

    @property
    def simulated(self) -> str:
        return (
            f"Simulated: {self.stood_in} are the scene world's, with programmed faults; the trained models and their "
            "training are real."
        )

    def label(self, arm: str) -> str:
        return self.labels.get(arm, {BASE: "Base model", OWN: "The recipe"}.get(arm, arm))

    def rows_of(self, table: str, arms: Iterable[str]) -> list[str]:
        """Arms in a table's rows below the base model, as far as the recipe has them."""
        available = [*arms, OWN]
        rows: list[str] = []
        for row in self.tables[table].rows:
            names = [arm for arm in available if arm.startswith(row[:-1])] if row.endswith("*") else [row]
            rows += [name for name in names if name in available]
        return rows


class ArmRow(_Data):
    """Scores of one model."""

    arm: str
    """`base`, `own` or the arm's name."""
    label: str
    figures: dict[str, Interval]
    """Figure → mean; figures that were not measured are missing."""


class ArmTable(_Data):
    """Table that `rubricworks arms` writes as JSON."""

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


@cache
def arm_forms() -> dict[str, ArmForm]:
    """Pipeline → its tables of arms."""
    return TypeAdapter(dict[str, ArmForm]).validate_python(parse_yaml(_FILE.read_text(encoding="utf-8")).value)


def arm_form(pipeline: str, board: Scoreboard | None = None) -> ArmForm:
    """Return the tables of a pipeline; without any, a form of the first figure of each scorer on a board."""
    if pipeline in arm_forms():
        return arm_forms()[pipeline]
    titles = {figure: board.title(figure) for figure in board.headlines} if board else {}
    columns = {figure: Column(title=title) for figure, title in titles.items()}
    return ArmForm(columns={**columns, LENGTH: Column(title="Length", plain=True)})


def arm_rows(boards: Mapping[str, Scoreboard], folders: Mapping[str, Path], form: ArmForm) -> dict[str, ArmRow]:
    """Rows of the base model and of every arm's policy.

    Args:
        boards: row → scores of its run; includes `own`, whose base model all runs start from.
        folders: row → folder of its run.
    Raises:
        UserError: a run started from another base model.
    """
    own = boards[OWN]
    for arm, board in boards.items():
        if any(board.mean(BASE, figure) != own.mean(BASE, figure) for figure in form.same_base):
            raise UserError(
                f"{folders[arm]}: its base model does not answer as that of {folders[OWN]} does; make the run again "
                f"with --reuse {folders[OWN].name}"
            )
    models = {BASE: (own, BASE), **{arm: (board, board.candidate or POLICY) for arm, board in boards.items()}}
    return {
        arm: ArmRow(arm=arm, label=form.label(arm), figures=_figures(own, board, model, form))
        for arm, (board, model) in models.items()
    }


def _figures(own: Scoreboard, board: Scoreboard, model: str, form: ArmForm) -> dict[str, Interval]:
    scores, figures = board.scores(model), {}
    assert scores is not None
    for name, column in form.columns.items():
        if column.own_measure and board.mean(BASE, name) != own.mean(BASE, name):
            continue
        if column.gain_of:
            figure = scores.gains.get(column.gain_of)
        elif column.task_of:
            figure = scores.tasks.get(column.task_of, {}).get(name)
        else:
            figure = scores.means.get(name)
        if figure is not None:
            figures[name] = figure
    return figures


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
    low, high = (number(bound if column.plain else 100 * bound, places) for bound in mean.bounds)
    return f"{low}{MISSING}{high}"


def markdown(table: ArmTable, form: ArmForm) -> str:
    lines = [f"# {table.title}", "", f"`{table.recipe}`, seed {table.seed}, Rubricworks {table.version}.", ""]
    if table.simulated:
        lines += [f"> {form.simulated}", ""]
    if table.changed:
        lines += [f"Settings changed in the recipe: {'; '.join(f'`{change}`' for change in table.changed)}.", ""]
    titles = [column.title for column in form.columns.values()]
    lines += [markdown_row(["Model", *titles]), markdown_row(["---", *["---:"] * len(titles)])]
    for row in table.rows:
        cells = [_cell(column, figure, row) for figure, column in form.columns.items()]
        lines.append(markdown_row([row.label, *cells]))
    return "\n".join([*lines, "", form.legend, ""])


def _cell(column: Column, figure: str, row: ArmRow) -> str:
    interval = cell_interval(column, figure, row)
    return cell_value(column, figure, row) + (f" ({interval})" if interval else "")


def markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


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
    largest = {
        figure: max(
            [column.of_base or 0.0, *(row.figures[figure].value for row in table.rows if figure in row.figures)]
        )
        for figure, column in form.columns.items()
    }

    def cell(figure: str, column: Column, row: ArmRow) -> tuple[str, str, float | None]:
        """Number, interval, and the width of the bar behind them in percent of the column's largest."""
        mean = row.figures.get(figure)
        value = column.of_base if row.arm == BASE and column.of_base is not None else mean.value if mean else None
        reach = None if value is None or not largest[figure] else 100 * value / largest[figure]
        return cell_value(column, figure, row), cell_interval(column, figure, row), reach

    rows = [(row, [cell(figure, column, row) for figure, column in form.columns.items()]) for row in table.rows]
    return render(
        "arms.html",
        folder=Path(__file__).parent,
        styles=("report.css", "arms.css"),
        title=table.title,
        kicker="Rubricworks arms",
        stood_in=form.stood_in if table.simulated else "",
        footer=f"Made by Rubricworks {table.version} from the scores of the runs.",
        table=table,
        columns=[column.title for column in form.columns.values()],
        rows=rows,
        legend=form.legend,
    )
