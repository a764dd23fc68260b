"""Scores of a run's base and policy for the claims, from its `score` stage."""

import importlib
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

from rubricworks.claims.registration import BASE, OWN
from rubricworks.claims.settings import read_scores
from rubricworks.evaluation import scoreboard
from rubricworks.evaluation.scoreboard import WIN, Scoreboard, figure_name
from rubricworks.recipe import METHODS
from rubricworks.reports.scores import score_rows

Arms = dict[str, dict[str, dict[str, float | None]]]


def read_arms(run: Path, method: str, name: str) -> Arms:
    """Arm → metric → sample → value, of one run; by the method's own reader if it has one."""
    package = METHODS[method]
    if find_spec(f"{package}.claims"):
        arms: Arms = importlib.import_module(f"{package}.claims").read_arms(run)
        return arms
    return scored_arms(run, method, name)


def scored_arms(run: Path, method: str, name: str) -> Arms:
    """Arm → metric → sample → value, of one run.

    A metric that weighs tasks alike has its tasks in the place of samples. Only the recipe's own run gives the base,
    and what else is scored beside the policy; the base wins half of an arena against itself.

    Args:
        name: `own`, or the name of the arm.
    Raises:
        UserError: the run is not finished, or a file is damaged.
    """
    board = read_scores(run, method)
    policy = board.candidate or scoreboard.POLICY
    values: Arms = defaultdict(lambda: defaultdict(dict))
    columns = ["sample_id", "model", "decoding", "scorer", "part", "against", "value"]
    for row in score_rows(run, columns):
        if row["decoding"] == board.decoding and row["sample_id"] is not None and row["against"] in (None, board.base):
            values[row["model"]][figure_name(row["scorer"], row["part"])][row["sample_id"]] = row["value"]
    for model, figures in values.items():
        figures.update(_task_means(board, model))
    arms = {name: values.pop(policy)}
    if name == OWN:
        arms |= {(BASE if model == board.base else model): figures for model, figures in values.items()}
        if WIN in arms[OWN]:
            arms[BASE][WIN] = dict.fromkeys(arms[OWN][WIN], 0.5)
    return {arm: dict(figures) for arm, figures in arms.items()}


def _task_means(board: Scoreboard, model: str) -> dict[str, dict[str, float | None]]:
    scores = board.scores(model)
    tasks = scores.tasks if scores else {}
    return {figure: {task: mean.value for task, mean in means.items()} for figure, means in tasks.items()}
