"""Fetch the champion from the registry, for the evaluation of its challenger, and the reward model that trained it."""

import shutil
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.methods.retrain.champion import open_registry, read_report, reward_model_of
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.runtime.serving.identity import REWARD_MODEL
from rubricworks.storage import files_digest
from rubricworks.tracking import Connection, ModelVersion, registry
from rubricworks.tracking.lineage import fetch_artifacts


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
    """Download a version's model into a folder, if it is the one that was registered."""
    label = f"{version.name} version {version.version}"
    download = job.scratch("coming")
    for stale in (target, download):
        shutil.rmtree(stale, ignore_errors=True)
    download.mkdir()
    model = registry.model_files(fetch_artifacts(connection, version.source, download, f"the model of {label}"))
    if (digest := version.tags.get(registry.DIGEST_TAG)) and files_digest(model.rglob("*"), model) != digest:
        raise UserError(
            f"{version.source}: the model of {label} is not the one that was registered; put it back, or make another "
            "version the champion"
        )
    shutil.move(model, target)
