"""`rubricworks leaderboard`: models of any evaluations in one table, with what may be compared and what may not."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rubricworks.errors import UserError
from rubricworks.evaluation.leaderboard import Leaderboard
from rubricworks.metrics import ranking_agreement
from rubricworks.reports.formats import interval, number
from rubricworks.reports.leaderboard import (
    Agreement,
    build_board,
    is_simulated_evaluation,
    leaderboard_text,
    read_source,
    standings,
    write_board,
)
from rubricworks.terminal import echo
from rubricworks.tracking import TrackingConfig, connect
from rubricworks.tracking.evaluations import log_evaluation


@click.command(name="leaderboard")
@click.argument(
    "sources", nargs=-1, required=True, metavar="EVALUATION...", type=click.Path(path_type=Path, exists=True)
)
@click.option(
    "--against", metavar="NAME", help="Model that the others are compared with; default: the first evaluation's."
)
@click.option("--all", "every_figure", is_flag=True, help="Every part of every scorer, not only the first.")
@click.option("--ranking", metavar="FILE|FIGURE", help="Compare each figure's ranking of the models with this one.")
@click.option("--title", default="Leaderboard", show_default=True)
@click.option("--experiment", metavar="NAME", help="Log the board to this MLflow experiment, as an evaluation.")
@click.option("--mlflow", "uri", metavar="URI", default="", help="MLflow; default: MLFLOW_TRACKING_URI, or a file.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for leaderboard.html, .md, .csv and .json.")
def leaderboard_command(
    sources: tuple[Path, ...],
    against: str | None,
    every_figure: bool,
    ranking: str | None,
    title: str,
    experiment: str | None,
    uri: str,
    out: Path | None,
) -> None:
    """Put the models of EVALUATIONs in one table: runs, folders of `rubricworks evaluate`, or tables of scores.

    A column is one scorer with one version, judge and opponent; a figure that was measured by two is two columns.
    Differences are paired by sample, and their significance is corrected for the number of comparisons.

    The ranking is a figure of the board (oracle_f1), or a CSV with the columns model and standing (higher is better)
    or rank (1 is the best), as people give it.

    \b
    rubricworks leaderboard runs/a runs/b scored/ --against base --out board/
    rubricworks leaderboard scored/ --ranking people.csv
    """
    board = build_board(sources, against=against, every_figure=every_figure)
    agreements = _agreements(board, ranking, sources) if ranking else []
    echo(leaderboard_text(board))
    for agreement in agreements:
        value = (
            f"{number(agreement.spearman.value)} [{interval(agreement.spearman)}]"
            if agreement.spearman
            else "not defined"
        )
        echo(f"{agreement.column.title}: agreement with the ranking {value}, {agreement.models} models")
    if out:
        simulated = any(map(is_simulated_evaluation, sources))
        write_board(board, out, title=title, simulated=simulated, agreements=agreements)
        echo(f"\n{out / 'leaderboard.html'}: the page; beside it .md, .csv and .json")
    if experiment:
        connection = connect(TrackingConfig(uri=uri, experiment=experiment), Path("runs"))
        if connection is None:
            raise UserError("--experiment: MLflow is not installed; pip install 'rubricworks[tracking]'")
        run = log_evaluation(connection, board, title, out)
        echo(f"logged to MLflow experiment {experiment}, run {run}")


def _agreements(board: Leaderboard, ranking: str, sources: tuple[Path, ...]) -> list[Agreement]:
    standing = standings(board, _ranking(board, ranking))
    if len(standing) < 2:
        raise UserError(f"--ranking {ranking}: it ranks {len(standing)} of the board's models; at least 2 are needed")
    values: dict[tuple[str, str, str, str], dict[str, dict[str, float | None]]] = {}
    for place in sources:
        for row in read_source(place).scores:
            if row["sample_id"] is not None and row["model"] in standing:
                part = row["scorer"] if row["part"] == "score" else f"{row['scorer']}_{row['part']}"
                key = (part, row["version"], row["judge"], row["decoding"])
                values.setdefault(key, {}).setdefault(row["model"], {})[row["sample_id"]] = row["value"]
    agreements = []
    for column in board.columns:
        by_model: Mapping[str, dict[str, Any]] = values.get((column.figure, column.version, column.judge, "greedy"), {})
        samples = sorted(set.intersection(*(set(values_of) for values_of in by_model.values()))) if by_model else []
        sign = -1 if column.lower_is_better else 1
        scores = {
            model: [None if (value := values_of[sample]) is None else sign * value for sample in samples]
            for model, values_of in by_model.items()
        }
        if len(scores) < 2 or not samples or column.figure == ranking:
            continue
        if any(all(value is None for value in row) for row in scores.values()):
            continue
        spearman = ranking_agreement(scores, {model: standing[model] for model in scores})
        agreements.append(Agreement(column, spearman, len(scores)))
    return agreements


def _ranking(board: Leaderboard, name: str) -> dict[str, float]:
    """Model → standing, higher is better."""
    at = next((at for at, column in enumerate(board.columns) if column.figure == name), None)
    if at is not None:
        sign = -1 if board.columns[at].lower_is_better else 1
        return {row.model: sign * row.cells[at].mean.value for row in board.rows if at in row.cells}
    path = Path(name)
    if not path.is_file():
        figures = ", ".join(dict.fromkeys(column.figure for column in board.columns))
        raise UserError(f"--ranking {name}: no such file, and no figure of the board ({figures})")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    ranking: dict[str, float] = {}
    for number_, row in enumerate(rows, start=2):
        try:
            standing = float(row["standing"]) if "standing" in row else -float(row["rank"])
            ranking[row["model"]] = standing
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: line {number_}: give the columns model, and standing or rank") from error
    return ranking
