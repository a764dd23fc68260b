"""Shared parts of the retraining stages: the new-sample report, the registry, and the outcome."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.runtime.admission import Admission, needs_of
from rubricworks.runtime.config import (
    StageConfig,
    canonical_json,
    endpoints_in,
    image_endpoints_in,
    logprob_endpoints_in,
)
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
from rubricworks.tracking.lineage import Lineage, read_lineage

REPORT_FILE = "found.json"
SUMMARY_FILE = "summary.json"
_NEEDS_MLFLOW = (
    "retraining starts from the champion in the model registry, which needs MLflow; run: "
    "pip install 'rubricworks[tracking]'"
)

_log = logging.getLogger(__name__)


class NewSampleReport(BaseModel):
    """Result of the search for new samples, for the stages that follow."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_name: str
    champion: int
    """Version of the champion."""
    data_digest: str
    """Digest of the champion's samples."""
    known: int
    """Samples of the champion and of the challenger that was tried last."""
    new: int
    """Usable samples that neither of them had; counting stops at `needed`."""
    needed: int
    recipe: StagedRecipe
    """Recipe of the challenger."""

    @property
    def sufficient(self) -> bool:
        """True if there are enough new samples for a retraining."""
        return self.new >= self.needed


class ChampionRecipe(NamedTuple):
    """The champion, and what it was made from."""

    champion: ModelVersion
    lineage: Lineage


def read_report(job: Job) -> NewSampleReport:
    """Read the report from the job's input `found`."""
    return NewSampleReport.model_validate_json((job.inputs["found"] / REPORT_FILE).read_bytes())


def open_registry(job: Job) -> tuple[Connection, str]:
    """Connect to the registry of the job's run; return the connection and the MLflow run of the stage.

    Raises:
        UserError: the run has no registry.
    """
    connection = stage_connection(job.run, job.stage)
    if connection is None:
        raise UserError(_NEEDS_MLFLOW)
    return connection


def require_champion(connection: Connection, model_name: str) -> ModelVersion:
    """Return the champion of a model.

    Raises:
        UserError: the model has no champion.
    """
    champion = registry.champion(connection, model_name)
    if champion is None:
        raise _no_champion(model_name, connection.safe_uri, registry.model_names(connection))
    return champion


def require_admission(lineage: Lineage, changes: Mapping[str, Any], champion: ModelVersion, admit: Admission) -> None:
    """Check that a recipe from the registry reaches only what is admitted, unless the lineage is signed.

    Args:
        changes: the retraining's own changes, whose values need no admission.
    Raises:
        UserError: lists what is not admitted, as it is to be written.
    """
    if lineage.signed:
        return
    without_own = changed_stages(lineage.recipe, dict.fromkeys(changes))
    lacking = admit.lacking(needs_of(without_own))
    if not lacking.is_empty:
        raise UserError(
            f"{champion.name} version {champion.version}: its recipe comes from the registry and reaches what is not "
            f"admitted; if you trust it, set new_samples.admit: {lacking.as_yaml()}"
        )


def check_champion(model_name: str, tracking: TrackingConfig, runs: Path) -> ChampionRecipe:
    """Check before a run that its registry has a champion, without creating a registry.

    Raises:
        UserError: there is no champion, or it cannot be retrained.
    """
    if missing_database(tracking, runs):
        raise _no_champion(model_name, tracking_uri(tracking, runs), [])
    if (connection := connect(tracking, runs)) is None:
        raise UserError(_NEEDS_MLFLOW)
    champion = require_champion(connection, model_name)
    lineage = read_lineage(connection, champion)
    return ChampionRecipe(champion, lineage)


def _no_champion(model_name: str, uri: str, models: Sequence[str]) -> UserError:
    return UserError(
        f"no champion of {model_name!r} in the registry at {uri}, so there is nothing to retrain (models there: "
        f"{', '.join(models) or 'none'}); run its recipe first, with a gate that the model passes"
    )


def apply_changes(recipe: StagedRecipe, changes: Mapping[str, Any]) -> StagedRecipe:
    """Return the recipe with some fields changed, after validating every stage's configuration.

    Args:
        changes: `stage.field` → value; fields may be nested, as in `train_policy.reward.judge.concurrency`.
    Raises:
        UserError: there is no such stage, or its configuration would be invalid.
    """
    stages = changed_stages(recipe, changes)
    for stage in stages:
        try:
            parse_config(stage, stages)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, (stage, *problem["loc"])))
            raise UserError(
                f"{recipe.name}, by which the champion was made: {where}: {problem['msg']}; set it with "
                "new_samples.changes"
            ) from error
    return recipe.model_copy(update={"stages": stages})


def changed_stages(recipe: StagedRecipe, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configurations of a recipe's stages with some fields changed, not validated.

    Raises:
        UserError: there is no such stage or section.
    """
    stages: dict[str, Any] = recipe.model_dump(mode="json")["stages"]
    for path, value in changes.items():
        stage, _, field = path.partition(".")
        if stage not in stages or not field:
            raise UserError(
                f"new_samples.changes: {path}: write stage.field; the champion's stages are {', '.join(stages)}"
            )
        *outer, last = field.split(".")
        section = stages[stage]
        for name in outer:
            section = section.setdefault(name, {}) if isinstance(section, dict) else {}
        if not isinstance(section, dict):
            raise UserError(f"new_samples.changes: {path}: {outer[-1]} is no section there")
        section[last] = value
    return stages


def parse_config(stage: str, stages: Mapping[str, Any]) -> StageConfig:
    """Validate the configuration of one stage."""
    return STAGES[stage].parse_config(canonical_json(stages[stage]))


def check_endpoints(recipe: StagedRecipe) -> None:
    """Check that every endpoint of the recipe answers, before any paid call.

    Raises:
        UserError: lists the endpoints that do not.
    """
    configs = {stage: parse_config(stage, recipe.stages) for stage in recipe.stages}
    pairs = (pair for stage, config in configs.items() for pair in endpoints_in(config, stage))
    endpoints = [(where, endpoint) for where, endpoint in pairs if endpoint.serve is None]  # the others do not run yet
    shown = {image_endpoint.identity for config in configs.values() for image_endpoint in image_endpoints_in(config)}
    graded = {endpoint.identity: endpoint for config in configs.values() for endpoint in logprob_endpoints_in(config)}
    distinct = {endpoint.identity: (where, endpoint) for where, endpoint in reversed(endpoints)}
    checks = [
        run_check(
            where,
            partial(
                require_endpoint,
                endpoint,
                sees_images=endpoint.identity in shown,
                logprobs_of=graded.get(endpoint.identity),
            ),
        )
        for where, endpoint in distinct.values()
    ]
    if failures := [check for check in checks if check.problem]:
        problems = "; ".join(f"{check.name}: {check.problem}" for check in failures)
        raise UserError(f"{len(failures)} of {len(checks)} endpoints of {recipe.name} fail: {problems}")


def reward_model_of(connection: Connection, champion: ModelVersion) -> ModelVersion | None:
    """Return the registered reward model that trained a champion; None if its judge was another one."""
    name, _, version = champion.tags.get(registry.REWARD_MODEL_TAG, "").rpartition("/")
    return registry.get_version(connection, name, int(version)) if name else None


def with_reward_model(recipe: StagedRecipe, champion: ModelVersion) -> StagedRecipe:
    """Return the recipe with the champion's reward model wherever it calls a model that the first run trained.

    Raises:
        UserError: the recipe calls one, and none was registered with the champion.
    """
    stages = recipe.model_dump(mode="json")["stages"]
    trained = [serve for serve in _served(stages) if isinstance(serve.get("model"), dict)]
    if trained and registry.REWARD_MODEL_TAG not in champion.tags:
        stage = trained[0]["model"]["stage"]
        raise UserError(
            f"{champion.name} version {champion.version}: its recipe calls the model of {stage}, and none was "
            "registered with it; run its recipe again, or set another judge with new_samples.changes"
        )
    for serve in trained:
        serve["model"] = {"stage": "fetch_champion"}
    return recipe.model_copy(update={"stages": stages})


def _served(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the definition of every served model in dumped configurations."""
    if isinstance(value, dict):
        if isinstance(serve := value.get("serve"), dict):
            yield serve
        value = list(value.values())
    for inner in value if isinstance(value, list) else ():
        yield from _served(inner)


def write_outcome(job: Job, outcome: str, report: NewSampleReport, **fields: Any) -> None:
    """Log the outcome of the retraining, and write it to the summaries of stage and run."""
    summary = {
        "outcome": outcome,
        "model_name": report.model_name,
        "champion": report.champion,
        "new_samples": report.new,
        "needed_samples": report.needed,
        **fields,
    }
    text = canonical_json(summary).encode()
    write_atomic(job.out / SUMMARY_FILE, text)
    write_atomic(job.run / SUMMARY_FILE, text)
    _log.info(outcome)
