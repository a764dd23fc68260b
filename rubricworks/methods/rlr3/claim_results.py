"""Results of a run that RLR³'s claims compare."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from pydantic import BaseModel, RootModel

from rubricworks.claims.settings import read_settings
from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.scoreboard import SCORES_FILE
from rubricworks.methods.rlr3.accuracy import ARMS, Accuracies, read_accuracies
from rubricworks.methods.rlr3.genrm_report import GenrmReport
from rubricworks.methods.rlr3.recipe import Rlr3Recipe
from rubricworks.methods.rlr3.reward_rules import Group
from rubricworks.reports.run_folder import read_value
from rubricworks.reports.scores import read_board
from rubricworks.rubrics import Rubric, Scorecard

RECIPE = "rlr3-laptop"
STAGES = ("write_checklists", "train_genrm", "audit", "train_rlvr", "train_rlr3", "score")
"""Stages whose outputs are read."""
_GENRM, _AUDIT, _SCORES = "train_genrm/genrm.json", "audit/audit.json", f"score/{SCORES_FILE}"
_RUBRICS, _SCORECARDS = "write_checklists", "train_rlr3/scorecards"
_Value = TypeVar("_Value", bound=BaseModel)


class RunResults(NamedTuple):
    """Results of one run."""

    genrm: dict[str, GenrmReport]
    """Model (base, sft, rlvr) → its row of Table 4."""
    audit: AuditSummary
    answers: Accuracies
    groups: tuple[Group, ...]
    """Groups of RLR³'s training."""


class _Models(RootModel[dict[str, GenrmReport]]):
    pass


def is_finished(run: Path) -> bool:
    """Return True if the run has all files that the claims need; its own report may still be missing."""
    files = [run / name for name in (_GENRM, _AUDIT, _SCORES, f"{_SCORECARDS}/manifest.json")]
    return all(path.is_file() for path in (*files, *(run / stage / "done.json" for stage in STAGES)))


def read_results(run: Path) -> RunResults:
    """Read the results of a run.

    Raises:
        UserError: a file is missing or damaged.
    """
    for stage in STAGES:
        if not (run / stage / "done.json").is_file():
            raise UserError(f"{run}: the stage {stage} has not finished; run it to its end, or leave this seed out")
    genrm = _read(run / _GENRM, _Models).root
    if missing := [model for model in ("base", "sft", "rlvr") if model not in genrm]:
        raise UserError(f"{run / _GENRM}: no figures of {', '.join(missing)}; run the stage train_genrm again")
    answers = read_accuracies(read_board(run))
    if answers is None:
        raise UserError(f"{run / _SCORES}: no scores of the base model's answers; run the stage score again")
    if missing := [arm for arm in ARMS if not answers.arms.get(arm)]:
        raise UserError(f"{run / _SCORES}: no milestones of {', '.join(missing)}; run the stage score again")
    return RunResults(genrm, _read(run / _AUDIT, AuditSummary), answers, tuple(_groups(run)))


def _read(path: Path, kind: type[_Value]) -> _Value:
    value = read_value(path, kind)
    if value is None:
        raise UserError(f"{path}: missing or empty; run the stage {path.parent.name} again")
    return value


def _groups(run: Path) -> Iterator[Group]:
    recipe = cast(Rlr3Recipe, read_settings(run, "rlr3"))
    size = recipe.policy.algorithm.rollouts.group_size
    rubrics = {
        row["sample_id"]: Rubric.model_validate_json(row["rubric"])
        for row in read_rows(run / _RUBRICS, columns=["sample_id", "rubric"])
    }
    scorecards = read_rows(run / _SCORECARDS, columns=["step", "sample_id", "scorecard"])
    for step, rows in groupby(scorecards, key=lambda row: row["step"]):
        step_rows = list(rows)
        for start in range(0, len(step_rows), size):
            group = step_rows[start : start + size]
            sample_id = group[0]["sample_id"]
            if len(group) < size or any(row["sample_id"] != sample_id for row in group) or sample_id not in rubrics:
                raise UserError(
                    f"{run / _SCORECARDS}: step {step}: the scorecards from {sample_id} on are not one group of {size} "
                    "responses to a sample with a rubric; run the stage train_rlr3 again"
                )
            credits = tuple(tuple(Scorecard.model_validate_json(row["scorecard"]).credits) for row in group)
            yield Group(rubrics[sample_id], credits)
