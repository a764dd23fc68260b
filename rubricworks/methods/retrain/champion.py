"""What the stages of a retraining share: what was found new, the registry, and how the outcome is told."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.runtime.config import StageConfig, canonical_json, endpoints_in
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import require_endpoint, run_check
from rubricworks.runtime.stage_table import STAGES
from rubricworks.storage import write_atomic
from rubricworks.tracking import (
    Connection,
    ModelVersion,
    StagedRecipe,
    TrackingConfig,
    connect,
    missing_database,
    registry,
    stage_connection,
    tracking_uri,
)

FOUND = "found.json"
OUTCOME = "summary.json"
_NEEDS_MLFLOW = (
    "retraining starts from the champion in the model registry, which needs MLflow; run: "
    "pip install 'rubricworks[tracking]'"
)

_log = logging.getLogger(__name__)


class Found(BaseModel):
    """What a look for new samples found, for the stages that follow."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_name: str
    champion: int
    """The champion's version."""
    data_digest: str
    """Of the champion's samples."""
    known: int
    """Samples of the champion and of the challenger that was tried last."""
    new: int
    """Usable samples that they do not have; counted until there are as many as are needed."""
    needed: int
    recipe: StagedRecipe
    """By which the challenger is made."""

    @property
    def enough(self) -> bool:
        return self.new >= self.needed


def read_found(job: Job) -> Found:
    """What was found new, from the job's input `found`."""
    return Found.model_validate_json((job.inputs["found"] / FOUND).read_bytes())


def open_registry(job: Job) -> tuple[Connection, str]:
    """The registry of the job's run, and the MLflow run of its stage.

    Raises:
        UserError: there is none here.
    """
    opened = stage_connection(job.run, job.stage)
    if opened is None:
        raise UserError(_NEEDS_MLFLOW)
    return opened


def champion_of(connection: Connection, model_name: str) -> ModelVersion:
    """The version that is retrained.

    Raises:
        UserError: there is none.
    """
    champion = registry.champion(connection, model_name)
    if champion is None:
        raise _no_champion(model_name, connection.shown_uri, registry.model_names(connection))
    return champion


def champion_is_there(model_name: str, tracking: TrackingConfig, runs: Path) -> str:
    """The same asked before a run is begun, by whoever can reach its registry; a registry is not made for it.

    Raises:
        UserError: there is none.
    """
    if missing_database(tracking, runs):
        raise _no_champion(model_name, tracking_uri(tracking, runs), [])
    if (connection := connect(tracking, runs)) is None:
        raise UserError(_NEEDS_MLFLOW)
    return f"{model_name} version {champion_of(connection, model_name).version}"


def _no_champion(model_name: str, uri: str, there: Sequence[str]) -> UserError:
    return UserError(
        f"no champion of {model_name!r} in the registry at {uri}, so there is nothing to retrain (models there: "
        f"{', '.join(there) or 'none'}); run its recipe first, with a gate that the model passes"
    )


def with_changes(recipe: StagedRecipe, changes: Mapping[str, Any]) -> StagedRecipe:
    """The recipe with other values in some fields, and every stage's configuration checked as a whole.

    Args:
        changes: `stage.field` → value; a field may be inside another, as `train_policy.judge.concurrency`.
    Raises:
        UserError: no such stage, or its configuration would not be one.
    """
    stages: dict[str, Any] = recipe.model_dump(mode="json")["stages"]
    for path, value in changes.items():
        stage, _, field = path.partition(".")
        if stage not in stages or not field:
            raise UserError(
                f"new_samples.changes: {path}: write stage.field; the champion's stages are {', '.join(stages)}"
            )
        *outer, last = field.split(".")
        place = stages[stage]
        for name in outer:
            place = place.setdefault(name, {}) if isinstance(place, dict) else {}
        if not isinstance(place, dict):
            raise UserError(f"new_samples.changes: {path}: {outer[-1]} is no section there")
        place[last] = value
    for stage in stages:
        try:
            parsed_config(stage, stages)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, (stage, *problem["loc"])))
            raise UserError(
                f"{recipe.name}, by which the champion was made: {where}: {problem['msg']}; set it with "
                "new_samples.changes"
            ) from error
    return recipe.model_copy(update={"stages": stages})


def parsed_config(stage: str, stages: Mapping[str, Any]) -> StageConfig:
    """A stage's configuration among those of all."""
    config: StageConfig = STAGES[stage].load().Config.model_validate(stages[stage])
    return config


def check_endpoints(recipe: StagedRecipe) -> None:
    """See that every endpoint of the recipe answers, before anything is paid for.

    Raises:
        UserError: names those that do not.
    """
    named = [pair for stage in recipe.stages for pair in endpoints_in(parsed_config(stage, recipe.stages), stage)]
    different = {(one.url, one.replicas, one.model, one.api_key_env): (where, one) for where, one in reversed(named)}
    checks = [run_check(where, partial(require_endpoint, one)) for where, one in different.values()]
    if missing := [check for check in checks if check.problem]:
        said = "; ".join(f"{check.name}: {check.problem}" for check in missing)
        raise UserError(f"{len(missing)} of {len(checks)} endpoints of {recipe.name} fail: {said}")


def tell_outcome(job: Job, outcome: str, found: Found, **figures: Any) -> None:
    """Say how the retraining ended: on the terminal and in the run's summary."""
    summary = {
        "outcome": outcome,
        "model_name": found.model_name,
        "champion": found.champion,
        "new_samples": found.new,
        "needed_samples": found.needed,
        **figures,
    }
    text = canonical_json(summary).encode()
    write_atomic(job.out / OUTCOME, text)
    write_atomic(job.run / OUTCOME, text)
    _log.info(outcome)
