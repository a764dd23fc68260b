"""The papers' tables of results from the scores of any runs, cell by cell, with the paper's figure beside ours.

`paper_tables.yaml` says what a row and a column is. A cell holds a figure with its 95 % interval, or what is missing. A
run fills the row of its arm, `own` and `base`; an evaluation, the rows that have the names of its models; `ROW=FOLDER`
and `ROW=FOLDER:MODEL` say otherwise. The interval of a mean over columns is the mean of their bounds, which is wide
enough however they go together; of a DPG-Bench category, a bootstrap over images.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rubricworks.data.ledger import last_change
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import BASE, POLICY, Scoreboard, read_scoreboard
from rubricworks.metrics import Interval, share_interval
from rubricworks.reports.run_folder import read_recipe
from rubricworks.reports.scores import STAGE, score_rows
from rubricworks.strict_yaml import parse_yaml

OWN, GAIN = "own", "gain"
_FIGURE = "fig"
"""Beginning of the number of a figure."""
_FILE = Path(__file__).parent / "paper_tables.yaml"
_LISTED = 6


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PaperColumn(_Data):
    """Source of a column's figures."""

    title: str
    figure: str = ""
    """Figure of a scoreboard."""
    task: str = ""
    """Its mean in this task."""
    category: str = ""
    """Of DPG-Bench: share of the questions of this category that are answered yes."""
    against: str = ""
    """Opponent of the comparison."""
    base: float | None = None
    """The base model's value, where it follows from the definition."""
    mean: bool = False
    """Mean of the columns before it."""
    file: str = ""
    """File of a run's stage, with `field` in it, at the row's `at`."""
    field: str = ""
    scale: float = 100.0
    """Ours times this is on the paper's scale."""
    places: int = 1
    needs: str = ""
    """Part of a recipe, or a command, that gives the figure."""


class PaperRow(_Data):
    label: str
    paper: tuple[float | None, ...]
    """The paper's figures by column, as printed; None where it has none."""
    at: str = ""
    """Place of the row in a column's file."""


class PaperSection(_Data):
    title: str
    rows: dict[str, PaperRow]
    """`base`, `own`, `gain`, an arm, or a model's name → row."""


class PaperTable(_Data):
    title: str
    pipelines: tuple[str, ...] = ()
    """Pipelines whose runs fill it; the paper's by default."""
    recipes: str = ""
    """Part of the names of the recipes that it is about, where a pipeline has several kinds."""
    columns: tuple[PaperColumn, ...]
    sections: dict[str, PaperSection]


class PaperTables(_Data):
    pipelines: tuple[str, ...]
    tables: dict[str, PaperTable]


class Cell(_Data):
    """Ours or what is missing, and the paper's."""

    ours: Interval | None = None
    """On the paper's scale."""
    missing: str = ""
    paper: float | None = None


class FilledRow(_Data):
    key: str
    label: str
    cells: tuple[Cell, ...]


class FilledSection(_Data):
    name: str
    title: str
    rows: tuple[FilledRow, ...]


class FilledTable(_Data):
    """A table with our figures; what `--json` holds."""

    paper: str
    number: str
    title: str
    columns: tuple[PaperColumn, ...]
    sections: tuple[FilledSection, ...]
    sources: tuple[str, ...] = Field(default=())
    """Folders that filled it."""
    simulated: bool = False
    """The scene world stood in for models and data in one of them."""

    @property
    def name(self) -> str:
        """Name in titles: `rubicap, Table 2` or `rubicap, Figure 4`."""
        figure = self.number.removeprefix(_FIGURE)
        return f"{self.paper}, {'Table' if figure == self.number else 'Figure'} {figure}"


@dataclass(frozen=True)
class Source:
    """Scores of a run or an evaluation."""

    folder: Path
    board: Scoreboard | None
    arm: str | None
    """Arm of a run's recipe; None for a recipe's own run, and for an evaluation."""
    pipeline: str | None
    """None for an evaluation outside a run."""
    simulated: bool


class _Place(NamedTuple):
    """A model that may fill a row."""

    source: Source
    model: str


@cache
def paper_tables() -> dict[str, PaperTables]:
    """Paper → its tables."""
    return TypeAdapter(dict[str, PaperTables]).validate_python(parse_yaml(_FILE.read_text(encoding="utf-8")).value)


def paper_table(paper: str, number: str) -> PaperTable:
    """A table of a paper.

    Raises:
        UserError: there is no such paper, or no such table with results.
    """
    tables = paper_tables()
    if paper not in tables:
        raise UserError(f"{paper}: no such paper; there are {', '.join(tables)}")
    if number not in tables[paper].tables:
        known = ", ".join(tables[paper].tables)
        raise UserError(f"{paper} has no table {number} of results; it has {known}")
    table = tables[paper].tables[number]
    return table if table.pipelines else table.model_copy(update={"pipelines": tables[paper].pipelines})


def read_source(folder: Path) -> Source:
    """Read a run's folder, or one that `rubricworks evaluate` wrote.

    Raises:
        UserError: it is neither.
    """
    recipe = read_recipe(folder)
    board = read_scoreboard(folder / STAGE)
    if not recipe and board is None:
        raise UserError(f"{folder}: neither a run nor an evaluation (no recipe.yaml, no {STAGE}/scores.json)")
    arm = recipe.get("arm")
    pipeline = str(recipe.get("pipeline") or "rubicap") if recipe else None
    return Source(folder, board, str(arm) if arm else None, pipeline, bool(recipe.get("world")))


def fill_table(paper: str, number: str, named: Sequence[tuple[str, Path, str]]) -> FilledTable:
    """Fill a table from these folders.

    Args:
        named: name, folder and model each: the name is empty, a section, a row, or SECTION.ROW; the model may be empty.
    Raises:
        UserError: a name is none of the table's, two runs are the same row, or a file is damaged.
    """
    table = paper_table(paper, number)
    places = _places(f"{paper} {number}", table, named)
    sections = tuple(
        FilledSection(name=name, title=section.title, rows=tuple(_rows(table, name, places[name])))
        for name, section in table.sections.items()
    )
    used = {place.source.folder: place.source for rows in places.values() for of in rows.values() for place in of}
    return FilledTable(
        paper=paper,
        number=number,
        title=table.title,
        columns=table.columns,
        sections=sections,
        sources=tuple(map(str, used)),
        simulated=any(source.simulated for source in used.values()),
    )


def _places(what: str, table: PaperTable, named: Sequence[tuple[str, Path, str]]) -> dict[str, dict[str, list[_Place]]]:
    """Section → row → models that may fill it, those that are named first."""
    places: dict[str, dict[str, list[_Place]]] = {name: {} for name in table.sections}
    first = next(iter(table.sections))
    for name, folder, model in named:
        source = read_source(folder)
        section, _, row = name.partition(".") if name.partition(".")[0] in table.sections else (first, "", name)
        rows = table.sections[section].rows
        if row and row not in rows:
            raise UserError(
                f"{name}={folder}: the table {what} has no row or section {name}; rows are {', '.join(rows)}"
                + (f", sections {', '.join(table.sections)}" if len(table.sections) > 1 else "")
            )
        if not row and source.pipeline not in (None, *table.pipelines):
            raise UserError(
                f"{folder}: a run of {source.pipeline}, and the table {what} is of {' or '.join(table.pipelines)}; "
                "name the row that it is, as ROW=FOLDER"
            )
        candidate = model or (source.board.candidate if source.board else None) or POLICY
        filled_rows = {row: candidate} if row else {key: of for key, of in _rows_of(source).items() if key in rows}
        for key, of in filled_rows.items():
            filled = places[section].setdefault(key, [])
            rival = next((place for place in filled if _same_kind(place.source, source)), None)
            if rival is not None and key != BASE:
                raise UserError(
                    f"{rival.source.folder} and {folder} are both the row {key}; leave one out, or name it ROW=FOLDER"
                )
            filled.append(_Place(source, of))
    return places


def _same_kind(first: Source, second: Source) -> bool:
    return (first.pipeline is None) == (second.pipeline is None)


def _rows_of(source: Source) -> dict[str, str]:
    """Rows that a folder fills by itself, with the model of each."""
    board = source.board
    names = {scores.model: scores.model for scores in board.models} if board else {}
    if source.pipeline is None:
        return names
    candidate = (board.candidate if board else None) or POLICY
    if source.arm is not None:
        return {source.arm: candidate}
    in_files = ("train", "test", "sft", "rlvr", "text", "image", "targets", "unverified")
    return {**dict.fromkeys(in_files, candidate), **names, OWN: candidate, BASE: board.base if board else BASE}


def _rows(table: PaperTable, section: str, places: Mapping[str, list[_Place]]) -> Iterator[FilledRow]:
    unnamed = not places and section != next(iter(table.sections))
    nothing = f"a run of its own: name it {section}=FOLDER" if unnamed else ""
    of_runs = bool({OWN, BASE, GAIN} & table.sections[section].rows.keys()) or table.columns[0].file != ""
    for key, row in table.sections[section].rows.items():
        candidates = places.get(OWN if key == GAIN else key, [])
        cells: list[Cell] = []
        for column, paper in zip(table.columns, row.paper, strict=True):
            if nothing or not (of_runs or candidates):
                ours, missing = None, nothing or column.needs or f"the figure {column.figure}"
            else:
                ours, missing = _cell(column, key, row, candidates, cells)
            scaled = None if ours is None else _scaled(ours, 1.0 if column.mean else column.scale)
            cells.append(Cell(ours=scaled, missing=missing, paper=paper))
        yield FilledRow(key=key, label=row.label, cells=tuple(cells))


def _cell(
    column: PaperColumn, key: str, row: PaperRow, places: Sequence[_Place], before: Sequence[Cell]
) -> tuple[Interval | None, str]:
    """Our figure, or what is missing."""
    if column.mean:
        return _mean(before)
    if key == BASE and column.base is not None:
        return Interval(value=column.base), ""
    if key == GAIN and column.base is not None:
        ours, missing = _cell(column, OWN, row, places, before)
        return (ours if ours is None else _shifted(ours, -column.base)), missing
    if not places:
        return None, f"no run of {'the recipe itself' if key in (OWN, GAIN, BASE) else key}"
    if column.file:
        return _of_file(column, row, places)
    reasons = []
    for place in places:
        board = place.source.board
        if board is None:
            reasons.append(f"{place.source.folder.name} has no scores yet")
            continue
        if column.against and board.base != column.against:
            continue
        figure = _figure(column, place, board, gain=key == GAIN)
        if isinstance(figure, Interval):
            return figure, ""
        reasons.append(figure)
    return None, next(filter(None, reasons), "") or column.needs or f"the figure {column.figure}"


def _figure(column: PaperColumn, place: _Place, board: Scoreboard, *, gain: bool) -> Interval | str:
    """The figure of a model on a board, or why there is none; empty if it was not asked for."""
    scores = board.scores(place.model)
    if scores is None:
        return f"{place.source.folder.name} has no scores of {place.model}"
    if column.category:
        return _dpg_category(column.category, place, board) or ""
    if column.task:
        tasks = {} if gain else scores.tasks.get(column.figure, {})
        if value := tasks.get(column.task):
            return value
    elif value := (scores.gains if gain else scores.means).get(column.figure):
        return value
    elif gain and (difference := _difference(board, place.model, column.figure)):
        return difference
    incomplete = scores.incomplete.get(column.figure, {})
    if reason := incomplete.get(column.task) or next(iter(incomplete.values()), ""):
        return reason
    if column.task and column.figure in scores.tasks:
        return f"a sample of the task {column.task}"
    skipped = [why for scorer, why in board.skipped.items() if column.figure.startswith(scorer)]
    return f"skipped: {skipped[0]}" if skipped else ""


def _difference(board: Scoreboard, model: str, figure: str) -> Interval | None:
    """Difference from the base of a figure of the whole corpus, which has no samples to pair."""
    mine, base = board.mean(model, figure), board.mean(board.base, figure)
    return Interval(value=mine.value - base.value) if mine and base else None


def _dpg_category(category: str, place: _Place, board: Scoreboard) -> Interval | None:
    """Share of yes among the questions of a first-level category, as `metrics.dpg_categories` counts them."""
    values: list[float | None] = []
    images: list[str] = []
    for row in score_rows(place.source.folder):
        if (row["scorer"], row["model"], row["decoding"]) != ("dpg", place.model, board.decoding) or not row[
            "evidence"
        ]:
            continue
        for proposition, answer in json.loads(row["evidence"]).items():
            if proposition.split("(")[0].split("-")[0].strip().lower() == category:
                values.append(float(answer == "yes"))
                images.append(row["sample_id"])
    return share_interval(values, clusters=images) if values else None


def _of_file(column: PaperColumn, row: PaperRow, places: Sequence[_Place]) -> tuple[Interval | None, str]:
    """A field of a stage's file.

    Raises:
        UserError: the file is no JSON.
    """
    path = places[0].source.folder / column.file
    if not path.is_file():
        return None, f"{column.file} of {places[0].source.folder.name}"
    try:
        value: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); run the stage {path.parent.name} again") from error
    for name in filter(None, f"{row.at}.{column.field}".split(".")):
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(value.get("value"), int | float):
        return Interval(value=value["value"], low=value.get("low"), high=value.get("high")), ""
    if isinstance(value, int | float):
        return Interval(value=value), ""
    return None, f"{'.'.join(filter(None, (row.at, column.field)))} in {column.file}"


def _mean(cells: Sequence[Cell]) -> tuple[Interval | None, str]:
    ours = [cell.ours for cell in cells if cell.ours is not None]
    if len(ours) < len(cells):
        return None, f"{len(cells) - len(ours)} of the {len(cells)} columns before it"
    bounds = [interval.bounds or (interval.value, interval.value) for interval in ours]
    low, high = (fmean(side) for side in zip(*bounds, strict=True))
    return Interval(value=fmean(interval.value for interval in ours), low=low, high=high), ""


def _scaled(interval: Interval, scale: float) -> Interval:
    low, high = (bound * scale for bound in interval.bounds) if interval.bounds else (None, None)
    return Interval(value=interval.value * scale, low=low, high=high)


def _shifted(interval: Interval, by: float) -> Interval:
    low, high = (bound + by for bound in interval.bounds) if interval.bounds else (None, None)
    return Interval(value=interval.value + by, low=low, high=high)


def newest_runs(folder: Path, paper: str, number: str) -> list[Path]:
    """The newest scored run of each arm among those of a folder that can fill a table."""
    table = paper_table(paper, number)
    runs = []
    for recipe in sorted(folder.glob("*/recipe.yaml"), key=lambda path: last_change(path.parent)):
        source = read_source(recipe.parent)
        if source.pipeline in table.pipelines and source.board is not None:
            runs.append((source.arm, recipe.parent, table.recipes in str(read_recipe(recipe.parent).get("name"))))
    of_kind = any(is_of_kind for *_, is_of_kind in runs)
    newest = {arm: place for arm, place, is_of_kind in runs if is_of_kind or not of_kind}
    return list(newest.values())
