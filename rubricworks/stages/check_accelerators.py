"""Whether a pool's accelerators can be used, seen on one of them before a stage waits for all that it needs."""

from rubricworks.stages.accelerators import require_accelerators
from rubricworks.stages.config import StageConfig, canonical_json
from rubricworks.stages.job import Job
from rubricworks.storage import write_atomic

EACH_TIME = True


class Config(StageConfig):
    """Nothing to set: what is asked for stands in the pod's environment."""


def run(config: Config, job: Job) -> None:
    names = require_accelerators()
    write_atomic(job.out / "accelerators.json", canonical_json({"names": names}).encode())
    job.figures.update(accelerators=len(names))
