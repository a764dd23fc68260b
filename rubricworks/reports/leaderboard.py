"""A leaderboard from the evaluations of runs and of `rubricworks evaluate`: as text, CSV, Markdown, JSON and a page."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.data.manifest import MANIFEST, canonical_json, read_manifest
from rubricworks.data.spreadsheet_cells import guard_cell
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.leaderboard import LEVEL, MIN_SAMPLES, Cell, Column, Leaderboard, Row, Source, leaderboard
from rubricworks.evaluation.scoreboard import LENGTH, read_scoreboard
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.metrics import Interval
from rubricworks.reports.charts import Series, SeriesChart, series_chart
from rubricworks.reports.formats import interval, number, signed, signed_interval
from rubricworks.reports.radar_charts import RadarChart, radar_chart
from rubricworks.reports.rendering import render
from rubricworks.reports.run_folder import SAMPLE_STAGES, SOURCE, is_simulated
from rubricworks.storage import write_atomic
from rubricworks.storage.plain_json import plain_object

_MAX_OUTLINES = 6
_MAX_AXES = 12
_CSV_COLUMNS = (
    *("model", "revision", "step", "decoding", "figure", "scorer", "version", "judge", "against", "value", "low"),
    *("high", "samples", "missing", "difference", "difference_low", "difference_high", "p_holm", "mark"),
    *("words", "dollars_per_response"),
)
_ROUNDED = 10
"""Figures from here on, such as Elo ratings, are shown without three decimals."""


class Agreement(NamedTuple):
    """Agreement of a column's ranking of the models with another ranking."""

    column: Column
    spearman: Interval | None
    models: int


def leaderboard_text(board: Leaderboard) -> str:
    """Aligned columns: means, and a mark where the difference is significant."""
    rows = [["model", *(column.title for column in board.columns), "words", "$ per response"]]
    rows += [
        [row.label, *(_short(row.cells.get(at)) for at in range(len(board.columns))), *_prices(row)]
        for row in board.rows
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", legend(board), *board.notes])


def legend(board: Leaderboard, better: str = "+", worse: str = "-") -> str:
    """Sentence that says what the marks mean."""
    if not board.comparisons:
        return f"No model has samples in common with {board.against}, so none is compared."
    comparisons = f"{board.comparisons} comparison{'' if board.comparisons == 1 else 's'}"
    return (
        f"{better} {worse} : better, worse than {board.against} on the samples that both have (paired t test on "
        f"at least {MIN_SAMPLES} samples, p < {LEVEL:g} after Holm's correction for {comparisons})."
    )


def leaderboard_markdown(board: Leaderboard) -> str:
    """A table with intervals, its legend and notes."""
    head = ["Model", *(column.title for column in board.columns), "Words", "$ per response"]
    lines = [_markdown(head), _markdown(["---", *("---:" for _ in head[1:])])]
    for row in board.rows:
        cells = [_long(row.cells.get(at)) for at in range(len(board.columns))]
        lines.append(_markdown([row.label, *cells, *_prices(row)]))
    return "\n".join([*lines, "", legend(board), "", *(f"- {note}" for note in board.notes), ""])


def leaderboard_csv(board: Leaderboard) -> str:
    """One line per model and column, with everything that is known of the figure."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for row in board.rows:
        for at, column in enumerate(board.columns):
            if (cell := row.cells.get(at)) is None:
                continue
            mean, gain = cell.mean, cell.difference
            cells = (
                [row.model, row.revision, row.step, row.decoding, column.figure, column.scorer, column.version]
                + [column.judge, column.against, mean.value, mean.low, mean.high, mean.samples, mean.missing]
                + ([gain.value, gain.low, gain.high] if gain else [None] * 3)
                + [cell.p, cell.mark, row.words.value if row.words else None, row.dollars]
            )
            writer.writerow(map(guard_cell, cells))
    return out.getvalue()


def leaderboard_page(
    board: Leaderboard, *, title: str, simulated: bool = False, agreements: Sequence[Agreement] = ()
) -> str:
    """The page: the table first, then the radar chart, the trajectories and the agreement with a ranking."""
    return render(
        "leaderboard.html",
        styles=("report.css", "tables.css", "leaderboard.css"),
        title=title,
        kicker="Rubricworks · leaderboard",
        footer="Made by Rubricworks from tables of scores. A column holds one scorer, version, judge and opponent.",
        simulated=simulated,
        **board_parts(board, agreements),
    )


def board_parts(board: Leaderboard, agreements: Sequence[Agreement] = ()) -> dict[str, Any]:
    """Values of `leaderboard_parts.html`, also for other pages; it needs `tables.css` and `leaderboard.css`."""
    return {
        "board": board,
        "legend": legend(board, "▲", "▼"),
        "tells_evaluations": len({row.evaluations for row in board.rows}) > 1,
        "radar": _radar(board),
        "trajectories": _trajectories(board),
        "cells": [[_page_cell(row.cells.get(at)) for at in range(len(board.columns))] for row in board.rows],
        "prices": [_prices(row) for row in board.rows],
        "budgets": _budget_curve(board),
        "agreements": [
            (agreement, number(agreement.spearman.value) if agreement.spearman else None, interval(agreement.spearman))
            for agreement in agreements
        ],
    }


class _PageCell(NamedTuple):
    value: str
    bounds: str
    change: str
    change_bounds: str
    mark: str


def _page_cell(cell: Cell | None) -> _PageCell | None:
    if cell is None:
        return None
    places = _places(cell.mean.value)
    change = change_bounds = ""
    if cell.difference:
        change = signed(cell.difference.value, places) + ("" if cell.p is None else f", p {cell.p:.2g}")
        change_bounds = signed_interval(cell.difference, places)
    bounds = interval(cell.mean, places) if cell.mean.bounds else ""
    return _PageCell(number(cell.mean.value, places), bounds, change, change_bounds, cell.mark)


def _radar(board: Leaderboard) -> RadarChart | None:
    """Models at their best step, over the columns that all of them have."""
    rows = _last_steps(board)[:_MAX_OUTLINES]
    shared = [at for at in range(len(board.columns)) if all(at in row.cells for row in rows)][:_MAX_AXES]
    scaled = []
    values: dict[int, list[float]] = {}
    for at in shared:
        column = [row.cells[at].mean.value for row in rows]
        worst, best = min(column), max(column)
        if board.columns[at].lower_is_better:
            worst, best = best, worst
        if worst > best or not all(0 <= value <= 1 for value in column):
            column = [(value - worst) / (best - worst) if best != worst else 0.5 for value in column]
            scaled.append(board.columns[at].title)
        values[at] = column
    note = f"{', '.join(scaled)}: from the worst to the best of these models." if scaled else ""
    outlines = [(row.label, [values[at][place] for at in shared]) for place, row in enumerate(rows)]
    return radar_chart("All figures that these models have", [board.columns[at].title for at in shared], outlines, note)


def _last_steps(board: Leaderboard) -> list[Row]:
    """One row per model: its last step."""
    last: dict[tuple[str, str, str], Row] = {}
    for row in board.rows:
        key = (row.model, row.revision, row.decoding)
        if key not in last or (row.step or 0) >= (last[key].step or 0):
            last[key] = row
    return list(last.values())


def _trajectories(board: Leaderboard) -> list[SeriesChart]:
    """A chart per column over training steps, of the models that were scored at several."""
    names = dict.fromkeys(row.model for row in board.rows if row.step is not None)
    charts = []
    for at, column in enumerate(board.columns):
        series = []
        for place, name in enumerate(names):
            rows = [row for row in board.rows if row.model == name and row.step is not None and at in row.cells]
            steps = sorted({row.step: row for row in rows}.items(), key=lambda entry: entry[0] or 0)
            if len(steps) > 1:
                points = [(float(step or 0), row.cells[at].mean.value) for step, row in steps]
                bounds = [row.cells[at].mean.bounds for _, row in steps]
                series.append(Series(f"m{place % 6}", name, points, [pair for pair in bounds if pair]))
        base = next((row for row in board.rows if row.model == board.against and row.step is None), None)
        level = (base.cells[at].mean.value, base.label) if base and at in base.cells else None
        if series:
            charts.append(_chart(column.title, series, level))
    return [chart for chart in charts if chart]


def _budget_curve(board: Leaderboard) -> SeriesChart | None:
    """CaptionQA under word budgets, over the words that the captions have."""
    columns = {
        int(column.figure.rpartition("_")[2]): at
        for at, column in enumerate(board.columns)
        if column.figure.startswith("caption_qa_budget_")
    }
    series = []
    for place, row in enumerate(_last_steps(board)[:_MAX_OUTLINES]):
        points = [(float(budget), row.cells[at].mean) for budget, at in sorted(columns.items()) if at in row.cells]
        if len(points) > 1:
            bounds = [mean.bounds for _, mean in points]
            values = [(budget, mean.value) for budget, mean in points]
            series.append(Series(f"m{place % 6}", row.label, values, [pair for pair in bounds if pair]))
    return _chart("CaptionQA under word budgets", series, None) if series else None


def _chart(title: str, series: Sequence[Series], level: tuple[float, str] | None) -> SeriesChart | None:
    values = [value for line in series for _, value in line.points] + ([level[0]] if level else [])
    values += [bound for line in series for bounds in line.intervals for bound in bounds]
    low, high = min(values), max(values)
    margin = (high - low) / 10 or 0.05
    return series_chart(title, series, bounds=(low - margin, high + margin), level=level)


def _places(value: float) -> int:
    return 1 if abs(value) >= _ROUNDED else 3


def _short(cell: Cell | None) -> str:
    return "-" if cell is None else f"{number(cell.mean.value, _places(cell.mean.value))}{cell.mark}"


def _long(cell: Cell | None) -> str:
    if cell is None:
        return "–"  # noqa: RUF001  an en dash is meant
    places = _places(cell.mean.value)
    bounds = f" ({interval(cell.mean, places)})" if cell.mean.bounds else ""
    return f"{number(cell.mean.value, places)}{bounds}{cell.mark}"


def _prices(row: Row) -> list[str]:
    words = number(row.words.value, 0) if row.words else "-"
    return [words, "-" if row.dollars is None else f"{row.dollars:.2g}"]


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def standings(board: Leaderboard, ranking: Mapping[str, float]) -> dict[str, float]:
    """Standing of the board's models in a ranking, without models that the ranking does not name."""
    return {row.model: ranking[row.model] for row in _last_steps(board) if row.model in ranking}


def build_board(sources: Sequence[Path], *, against: str | None = None, every_figure: bool = False) -> Leaderboard:
    """Build the board of several evaluations.

    Raises:
        UserError: there is no score, or no model called `against`.
    """
    try:
        return leaderboard([read_source(place) for place in sources], against=against, every_figure=every_figure)
    except ValueError as error:
        raise UserError(f"{', '.join(map(str, sources))}: {error}") from error


def write_board(
    board: Leaderboard, out: Path, *, title: str, simulated: bool = False, agreements: Sequence[Agreement] = ()
) -> None:
    """Write the board's page, and its Markdown, CSV and JSON forms, into a folder."""
    page = leaderboard_page(board, title=title, simulated=simulated, agreements=agreements)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "leaderboard.html", page.encode("utf-8", "replace"))
    write_atomic(out / "leaderboard.md", leaderboard_markdown(board).encode("utf-8", "replace"))
    write_atomic(out / "leaderboard.csv", leaderboard_csv(board).encode("utf-8", "replace"))
    write_atomic(out / "leaderboard.json", canonical_json(board.model_dump(mode="json")))


def read_source(place: Path, *, confined: bool = False) -> Source:
    """Tables of a run, of an evaluation's folder, or a table itself.

    Args:
        confined: read no samples of another folder, though `source.json` names one.
    """
    folder = place if (place / MANIFEST).is_file() else place / "score"
    if not (folder / MANIFEST).is_file() or read_manifest(folder).table != "scores":
        raise UserError(
            f"{place}: no finished scores; give a run, a folder of `rubricworks evaluate`, or a scores table"
        )
    home = folder.parent
    board = read_scoreboard(folder)
    responses = folder / "responses"
    counts: dict[str, int] = {}
    rows = list(read_rows(responses)) if (responses / MANIFEST).is_file() else []
    for row in rows:
        counts[row["model"]] = counts.get(row["model"], 0) + 1
    return Source(
        place.name,
        read_rows(folder),
        rows,
        _tasks(home, confined),
        board.titles if board else {},
        _dollars(home, counts),
        [figure for figure in board.headlines if figure != LENGTH] if board else (),
        board.lower_is_better if board else (),
        board.base if board else None,
    )


def _tasks(home: Path, confined: bool) -> dict[str, str]:
    """Sample → task, of the samples that were scored."""
    try:
        samples = home if confined else Path(str(plain_object((home / SOURCE).read_bytes())["samples"]))
    except (OSError, ValueError, KeyError):
        samples = home
    if samples == home:
        samples = next((home / stage for stage in SAMPLE_STAGES if (home / stage / MANIFEST).is_file()), home)
    if not (samples / MANIFEST).is_file() or read_manifest(samples).table != "samples":
        return {}
    rows = read_rows(samples, columns=["sample_id", "task"])
    return {row["sample_id"]: row["task"] for row in rows if row["task"]}


def _dollars(home: Path, responses: Mapping[str, int]) -> dict[str, float]:
    """Model → cost of a response, of endpoints with a price; by the endpoint's model or its only model's name."""
    costs: dict[str, float] = {}
    for row in read_spending(home / SPENDING_FILE):
        if row["purpose"] == "response" and row["cost"]:
            costs[row["model"]] = costs.get(row["model"], 0.0) + row["cost"]
    return {model: cost / responses[model] for model, cost in costs.items() if responses.get(model)}


def is_simulated_evaluation(place: Path) -> bool:
    """Return True if the scene world stood in for images or judges."""
    try:
        return bool(plain_object((place / SOURCE).read_bytes()).get("simulated")) or is_simulated(place)
    except (OSError, ValueError):
        return is_simulated(place)
