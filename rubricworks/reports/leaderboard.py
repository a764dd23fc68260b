"""A leaderboard for people and programs: text, CSV, Markdown, and a page with a radar chart and trajectories."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rubricworks.data.spreadsheet_cells import guard_cell
from rubricworks.evaluation.leaderboard import LEVEL, Cell, Column, Leaderboard, Row
from rubricworks.metrics import Interval
from rubricworks.reports.charts import Series, SeriesChart, series_chart
from rubricworks.reports.formats import interval, number, signed, signed_interval
from rubricworks.reports.radar_charts import RadarChart, radar_chart
from rubricworks.reports.rendering import render

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
        f"{better} {worse} : better, worse than {board.against} on the samples that both have (paired bootstrap, "
        f"p < {LEVEL:g} after Holm's correction for {comparisons})."
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
            (one, number(one.spearman.value) if one.spearman else None, interval(one.spearman)) for one in agreements
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
        if not all(0 <= value <= 1 for value in column):
            low, high = min(column), max(column)
            column = [(value - low) / (high - low) if high > low else 0.5 for value in column]
            scaled.append(board.columns[at].title)
        values[at] = column
    note = f"{', '.join(scaled)}: from the lowest to the highest of these models." if scaled else ""
    outlines = [(row.label, [values[at][place] for at in shared]) for place, row in enumerate(rows)]
    return radar_chart("All figures that these models have", [board.columns[at].title for at in shared], outlines, note)


def _last_steps(board: Leaderboard) -> list[Row]:
    """One row per model: that of its last step."""
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
                series.append(Series(f"m{place % 6}", name, points, [one for one in bounds if one]))
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
            series.append(Series(f"m{place % 6}", row.label, values, [one for one in bounds if one]))
    return _chart("CaptionQA under word budgets", series, None) if series else None


def _chart(title: str, series: Sequence[Series], level: tuple[float, str] | None) -> SeriesChart | None:
    values = [value for one in series for _, value in one.points] + ([level[0]] if level else [])
    values += [bound for one in series for bounds in one.intervals for bound in bounds]
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
    """Standing of the board's models in a ranking; models that it does not name are left out."""
    return {row.model: ranking[row.model] for row in _last_steps(board) if row.model in ranking}
