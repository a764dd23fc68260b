"""What a source holds that the champion does not know, and whether that is worth a retraining.

The registry tells by which recipe the champion was made and which samples its run had. Today's source is drawn by that
recipe again, as its `prepare` would draw it; what is drawn, usable and not among the champion's samples is new. While
the champion is the one that the last challenger was measured against, that challenger's samples are known too: what
was tried once is not tried again every night.

Too few new samples end the run, and end it well: "skipped: 12 new samples, 500 needed". Otherwise the configurations
of the champion's stages are handed on, if their endpoints answer, and the pipeline makes a challenger with them.
"""

import logging
from typing import Any

from pydantic import Field

from rubricworks.methods.retrain.champion import (
    FOUND,
    Found,
    champion_of,
    check_endpoints,
    open_registry,
    tell_outcome,
    with_changes,
)
from rubricworks.methods.retrain.stages.new_samples import count_new
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import OUTPUT_VALUES, Job
from rubricworks.storage import write_atomic
from rubricworks.tracking import Connection, ModelVersion, registry, stage_run
from rubricworks.tracking.lineage import read_lineage

NO_PIPELINE = "none"
"""Handed on instead of a pipeline's name when there is nothing to do."""

_log = logging.getLogger(__name__)


class Config(StageConfig):
    model_name: str = Field(default="captioner", min_length=1)
    """Name in the model registry, whose champion is retrained."""
    needed: int = Field(default=500, ge=1)
    """Fewer new samples than this are not worth a retraining."""
    changes: dict[str, Any] = Field(default={})
    """What is done otherwise than by the champion's recipe: `train_policy.steps: 100`, a stage and its field."""


def run(config: Config, job: Job) -> None:
    connection, _ = open_registry(job)
    champion = champion_of(connection, config.model_name)
    lineage = read_lineage(connection, champion)
    recipe = with_changes(lineage.recipe, config.changes)
    samples = [*lineage.samples]
    if tried := _tried_last(connection, champion):
        samples += read_lineage(connection, tried).samples
    new = count_new(recipe, samples, config.needed, job)
    found = Found(
        model_name=config.model_name,
        champion=champion.version,
        data_digest=champion.tags.get("data_digest", ""),
        known=len({sample.sample_id for sample in samples}),
        new=new,
        needed=config.needed,
        recipe=recipe,
    )
    write_atomic(job.out / FOUND, canonical_json(found).encode())
    handed = {
        "pipeline": recipe.pipeline if found.enough else NO_PIPELINE,
        # As in `pipeline_arguments`: Kubeflow would resolve these braces, in a prompt too.
        "configs": canonical_json({"stages": recipe.stages}).replace("{{$", "{\\u007b$"),
    }
    write_atomic(job.out / OUTPUT_VALUES, canonical_json(handed).encode())
    if found.enough:
        check_endpoints(recipe)
    figures = {"new_samples": new, "known_samples": found.known, "needed_samples": config.needed}
    job.figures.update(figures)
    if found.enough:
        outcome = f"{new} new samples: retraining {config.model_name} version {champion.version} by {recipe.name}"
        _log.info(outcome)
    else:
        outcome = f"skipped: {new} new samples, {config.needed} needed"
        if tried:
            outcome += f", since version {tried.version} was tried"
        tell_outcome(job, outcome, found)
    with stage_run(job.run, job.stage) as log:
        log.log_metrics(figures)
        log.set_tags({"outcome": outcome})


def _tried_last(connection: Connection, champion: ModelVersion) -> ModelVersion | None:
    """The challenger, if it was measured against this champion."""
    version = registry.challenger(connection, champion.name)
    return version if version and version.tags.get(registry.CHALLENGED) == str(champion.version) else None
