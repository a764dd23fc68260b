"""Runs that can be compared: their settings differ in the seed and the fields of their arm alone; their scores."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rubricworks.claims.planned_runs import PlannedRun, overlaps
from rubricworks.errors import UserError
from rubricworks.evaluation.scoreboard import BASE, POLICY, SCORES_FILE, Scoreboard, read_scoreboard
from rubricworks.recipe import Recipe
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.reports.scores import STAGE

_SHOWN = 3


def check_settings(runs: Sequence[PlannedRun]) -> None:
    """Refuse overrides that cannot be run, and folders of an earlier call with other settings or another arm.

    Args:
        runs: of one recipe.
    Raises:
        UserError: an override names no field, gives it a wrong value, is a seed, or changes a field of an arm; there
            is no such arm; a folder was run with other settings, and the error names the run and the fields.
    """
    arms = load_recipe(recipe_path(runs[0].recipe)).arms
    for override in runs[0].overrides:
        if override.partition("=")[0].strip().rpartition(".")[2] == "seed":
            raise UserError(
                f"--set {override}: what is random follows the seed of each run, which --seeds gives, or --seed for "
                "arms; leave this out"
            )
    for run in runs:
        for override in run.overrides if run.arm in arms else ():
            _check_no_overlap(override, str(run.arm), arms[str(run.arm)])
    first_runs = _first_run_of_each_arm(runs)
    expected = {
        arm: _settings(load_recipe(recipe_path(run.recipe), run.changes, arm=arm)) for arm, run in first_runs.items()
    }
    for run in runs:
        if (run.folder / "recipe.yaml").is_file() and (
            changed := differences(_settings(read_settings(run.folder)), expected[run.arm])
        ):
            raise UserError(
                f"{run.folder} was run with other settings ({_shorten(changed)}); give the same --set as then, or "
                "another folder with --runs"
            )


def shared_changes(runs: Sequence[PlannedRun]) -> list[str]:
    """Fields that all runs changed in the recipe, with both values; an arm need not change what it sets itself.

    Raises:
        UserError: the runs did not change the same, or one is not the arm that its name says.
    """
    first_runs = _first_run_of_each_arm(runs)
    settings = {arm: _settings(read_settings(run.folder)) for arm, run in first_runs.items()}
    for run in runs:
        _check_same(first_runs[run.arm], run, differences(settings[run.arm], _settings(read_settings(run.folder))))
    changes = {
        arm: differences(_settings(load_recipe(recipe_path(run.recipe), arm=arm)), settings[arm])
        for arm, run in first_runs.items()
    }
    shared = changes[runs[0].arm]
    arms = load_recipe(recipe_path(runs[0].recipe)).arms
    for arm, run in first_runs.items():
        other = sorted(set(changes[arm]) ^ set(shared))
        fields = arms.get(arm, {}) if arm else {}
        _check_same(runs[0], run, [change for change in other if not overlaps(change.partition(":")[0], fields)])
    return shared


def read_settings(run: Path, pipeline: str | None = None) -> Recipe:
    """Read the recipe of a run.

    Args:
        pipeline: the pipeline that the recipe must have.
    Raises:
        UserError: there is no run, or one of another pipeline.
    """
    path = run / "recipe.yaml"
    if not path.is_file():
        raise UserError(f"{run}: there is no run here (no recipe.yaml); --only-report makes none: run without it")
    recipe = load_recipe(path)
    if pipeline is not None and recipe.pipeline != pipeline:
        raise UserError(f"{path}: a recipe of the pipeline {recipe.pipeline}, not of {pipeline}; give another folder")
    return recipe


def settings_digest(recipe: Recipe) -> str:
    """First 12 hexadecimal digits of the SHA-256 of a recipe's settings, without its seed and its other arms."""
    return hashlib.sha256(json.dumps(_settings(recipe), sort_keys=True).encode()).hexdigest()[:12]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Fields that differ, as `policy.algorithm.steps: 100 → 4`; a missing field is null."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            lines += [f"{name}.{inner}" for inner in differences(old, new)]
        elif old != new:
            lines.append(f"{name}: {json.dumps(old)} → {json.dumps(new)}")
    return lines


def _first_run_of_each_arm(runs: Sequence[PlannedRun]) -> dict[str | None, PlannedRun]:
    """Arm → its first run: those of other seeds have the same settings."""
    first: dict[str | None, PlannedRun] = {}
    for run in runs:
        first.setdefault(run.arm, run)
    return first


def _check_no_overlap(override: str, arm: str, fields: Mapping[str, Any]) -> None:
    if field := overlaps(override, fields):
        raise UserError(
            f"--set {override}: the arm {arm} is about {field}, and would be another one; leave out the arm or "
            "this change"
        )


def _check_same(first: PlannedRun, second: PlannedRun, changed: list[str]) -> None:
    if changed:
        raise UserError(
            f"{first.folder} and {second.folder} were run with different settings ({_shorten(changed)}); what is "
            "compared may differ in nothing but the seed and the arm"
        )


def _settings(recipe: Recipe) -> dict[str, Any]:
    # The recipe in a run's folder has the name of its arm and not the other arms.
    seedless = _without_seed(recipe.model_dump(mode="json", exclude={"arms"}), recipe.seed)
    assert isinstance(seedless, dict)
    return seedless


def _without_seed(value: Any, seed: int) -> Any:
    """Remove the run's seed wherever it stands; another seed of a section is a setting like others."""
    if isinstance(value, dict):
        return {name: _without_seed(inner, seed) for name, inner in value.items() if (name, inner) != ("seed", seed)}
    return [_without_seed(inner, seed) for inner in value] if isinstance(value, list) else value


def _shorten(changed: list[str]) -> str:
    more = len(changed) - _SHOWN
    return ", ".join(changed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


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
    models = (BASE, board.candidate or POLICY)
    if missing := [model for model in models if board.scores(model) is None]:
        raise UserError(f"{run / STAGE / SCORES_FILE}: no figures of {', '.join(missing)}; run the stage {STAGE} again")
    return board
