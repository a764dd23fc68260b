"""Check one accelerator of a pool before a stage waits for all that it needs."""

from rubricworks.runtime.accelerators import require_accelerators
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic


class Config(StageConfig):
    """No settings: the number of accelerators is in the pod's environment."""


def run(config: Config, job: Job) -> None:
    names = require_accelerators()
    write_atomic(job.out / "accelerators.json", canonical_json({"names": names}).encode())
    job.figures.update(accelerators=len(names))
