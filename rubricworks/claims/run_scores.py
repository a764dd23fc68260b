"""Held-out scores of the runs that claims and tables of arms compare."""

from pathlib import Path

from rubricworks.claims.settings import read_settings
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import BASE, POLICY, SCORES_FILE, Scoreboard, read_scoreboard
from rubricworks.reports.scores import STAGE


def is_finished(run: Path) -> bool:
    """Return True if the held-out responses are scored; the run's own page may still be missing."""
    return (run / STAGE / "done.json").is_file()


def read_scores(run: Path, method: str) -> Scoreboard:
    """Read the scoreboard of a run.

    Raises:
        UserError: the run is not of the method's pipeline, is not finished, or a file is damaged.
    """
    read_settings(run, method)
    if not is_finished(run):
        raise UserError(f"{run}: the stage {STAGE} has not finished; run it to its end, or leave it out")
    board = read_scoreboard(run / STAGE)
    if board is None:
        raise UserError(f"{run / STAGE / SCORES_FILE}: missing; run the stage {STAGE} again")
    if missing := [model for model in (BASE, POLICY) if board.scores(model) is None]:
        raise UserError(f"{run / STAGE / SCORES_FILE}: no figures of {', '.join(missing)}; run the stage {STAGE} again")
    return board
