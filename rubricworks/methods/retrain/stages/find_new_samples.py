"""Find samples of a source that are new to the champion, and decide whether they justify a retraining.

The registry holds the champion's recipe and the samples of its run. Today's source is drawn by that recipe, as its
`prepare` would draw it; drawn, usable samples that the champion did not have are new. As long as the last challenger
was measured against the current champion, that challenger's samples count as known too, so that a failed retraining is
not repeated every night.

With too few new samples the run ends successfully: "skipped: 12 new samples, 500 needed". Otherwise the stage outputs
the configurations of the champion's stages, if their endpoints answer, and the pipeline trains a challenger with them.
"""

import logging
from typing import Any

from pydantic import Field

from rubricworks.methods.retrain.champion import (
    REPORT_FILE,
    NewSampleReport,
    apply_changes,
    check_endpoints,
    open_registry,
    require_admission,
    require_champion,
    with_reward_model,
    write_outcome,
)
from rubricworks.methods.retrain.stages.new_samples import count_new
from rubricworks.runtime.admission import Admission
from rubricworks.runtime.config import StageConfig, canonical_json, parameter_json
from rubricworks.runtime.job import OUTPUT_VALUES, Job
from rubricworks.runtime.packages import optional_packages
from rubricworks.storage import write_atomic
from rubricworks.tracking import Connection, ModelVersion, registry, stage_run
from rubricworks.tracking.lineage import read_lineage

NO_PIPELINE = "none"
"""Output in place of a pipeline's name when there is nothing to do."""

_log = logging.getLogger(__name__)


class Config(StageConfig):
    model_name: str = Field(default="captioner", min_length=1)
    """Model in the registry whose champion is retrained."""
    needed: int = Field(default=500, ge=1)
    """Fewest new samples that justify a retraining."""
    changes: dict[str, Any] = Field(default={})
    """Changes to the champion's recipe, `stage.field` → value, such as `train_policy.algorithm.steps: 100`."""
    admit: Admission = Admission()
    """What the champion's recipe, which comes from the registry, may reach: hosts with the environment variables that
    are sent to each, and Python functions. Not asked of a recipe that is signed with RUBRICWORKS_LINEAGE_KEY.
    """


def run(config: Config, job: Job) -> None:
    connection, _ = open_registry(job)
    champion = require_champion(connection, config.model_name)
    lineage = read_lineage(connection, champion)
    recipe = with_reward_model(apply_changes(lineage.recipe, config.changes), champion)
    require_admission(lineage, config.changes, champion, config.admit)
    samples = [*lineage.samples]
    if challenger := _last_challenger(connection, champion):
        samples += read_lineage(connection, challenger).samples
    new = count_new(recipe, samples, config.needed, job)
    report = NewSampleReport(
        model_name=config.model_name,
        champion=champion.version,
        data_digest=champion.tags.get("data_digest", ""),
        known=len({sample.sample_id for sample in samples}),
        new=new,
        needed=config.needed,
        recipe=recipe,
    )
    write_atomic(job.out / REPORT_FILE, canonical_json(report).encode())
    outputs = {
        "pipeline": recipe.pipeline if report.sufficient else NO_PIPELINE,
        "configs": parameter_json(canonical_json({"stages": recipe.stages | _checks(recipe.stages)})),
    }
    write_atomic(job.out / OUTPUT_VALUES, canonical_json(outputs).encode())
    if report.sufficient:
        check_endpoints(recipe)
    figures = {"new_samples": new, "known_samples": report.known, "needed_samples": config.needed}
    job.figures.update(figures)
    if report.sufficient:
        outcome = f"{new} new samples: retraining {config.model_name} version {champion.version} by {recipe.name}"
        _log.info(outcome)
    else:
        outcome = f"skipped: {new} new samples, {config.needed} needed"
        if challenger:
            outcome += f", since version {challenger.version} was tried"
        write_outcome(job, outcome, report)
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(figures)
        log.set_tags({"outcome": outcome})


def _checks(stages: dict[str, Any]) -> dict[str, Any]:
    """Configuration of the check that a cluster makes before the branch calls a model."""
    packages = optional_packages(stages)
    return {"check_accelerators": {"packages": packages}} if packages else {}


def _last_challenger(connection: Connection, champion: ModelVersion) -> ModelVersion | None:
    """Return the challenger if it was measured against this champion."""
    version = registry.challenger(connection, champion.name)
    return version if version and version.tags.get(registry.OPPONENT_TAG) == str(champion.version) else None
