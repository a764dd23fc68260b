"""The champion's weights from the registry, whole, for the evaluation that its challenger must pass."""

import shutil

from rubricworks.errors import UserError
from rubricworks.methods.retrain.champion import open_registry, read_found
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, model_dir
from rubricworks.storage import files_digest
from rubricworks.tracking import registry
from rubricworks.tracking.lineage import fetch_artifacts


class Config(StageConfig):
    """Which model is said by what was found."""


def run(config: Config, job: Job) -> None:
    found = read_found(job)
    connection, _ = open_registry(job)
    version = registry.version_of(connection, found.model_name, found.champion)
    label = f"{version.name} version {version.version}"
    place, coming = model_dir(job.out), job.scratch("coming")
    for stale in (place, coming):
        shutil.rmtree(stale, ignore_errors=True)
    coming.mkdir()
    fetched = fetch_artifacts(connection, version.source, coming, f"the model of {label}")
    if (wanted := version.tags.get(registry.DIGEST_TAG)) and files_digest(fetched.rglob("*"), fetched) != wanted:
        raise UserError(
            f"{version.source}: the model of {label} is not the one that was registered; put it back, or make another "
            "version the champion"
        )
    shutil.move(fetched, place)
    job.figures["version"] = version.version
