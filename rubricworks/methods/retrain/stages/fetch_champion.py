"""Fetch the champion from the registry, for the evaluation of its challenger, and the reward model that trained it."""

import shutil
from pathlib import Path

from rubricworks.methods.retrain.champion import open_registry, read_report, reward_model_of
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.serving.identity import REWARD_MODEL
from rubricworks.tracking import Connection, ModelVersion, registry


class Config(StageConfig):
    """No fields: the new-sample report names the model."""


def run(config: Config, job: Job) -> None:
    report = read_report(job)
    connection, _ = open_registry(job)
    version = registry.get_version(connection, report.model_name, report.champion)
    _fetch(connection, job, version, model_dir(job.out))
    if reward_model := reward_model_of(connection, version):
        _fetch(connection, job, reward_model, job.out / REWARD_MODEL)
        job.figures["reward_model"] = f"{reward_model.name}/{reward_model.version}"
    job.figures["version"] = version.version


def _fetch(connection: Connection, job: Job, version: ModelVersion, target: Path) -> None:
    """Fetch a version's model in place of what an earlier attempt left."""
    download = job.scratch("coming")
    for stale in (target, download):
        shutil.rmtree(stale, ignore_errors=True)
    download.mkdir()
    registry.fetch_model(connection, version, target, scratch=download)
