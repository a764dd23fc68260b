"""Fetch the champion's weights from the registry, for the evaluation of its challenger."""

import shutil

from rubricworks.errors import UserError
from rubricworks.methods.retrain.champion import open_registry, read_report
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.storage import files_digest
from rubricworks.tracking import registry
from rubricworks.tracking.lineage import fetch_artifacts


class Config(StageConfig):
    """No fields: the new-sample report names the model."""


def run(config: Config, job: Job) -> None:
    report = read_report(job)
    connection, _ = open_registry(job)
    version = registry.get_version(connection, report.model_name, report.champion)
    label = f"{version.name} version {version.version}"
    target, download = model_dir(job.out), job.scratch("coming")
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
    job.figures["version"] = version.version
