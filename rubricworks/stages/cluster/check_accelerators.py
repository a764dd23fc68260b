"""Check the trainer image's packages, and one accelerator of a pool, before a stage calls a model or waits for all."""

from typing import Any

import yaml
from pydantic import Field

from rubricworks.runtime.accelerators import require_accelerators
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.packages import packages_of
from rubricworks.runtime.preflight_checks import require_packages
from rubricworks.storage import write_atomic


class Config(StageConfig):
    """The number of accelerators is in the pod's environment, the recipe in the run's folder."""

    packages: dict[str, str] = Field(default={})
    """Further packages → what needs them. A retraining learns those of the champion's recipe while it runs."""


def run(config: Config, job: Job) -> None:
    recipe = job.run / "recipe.yaml"
    settings: Any = yaml.safe_load(recipe.read_text(encoding="utf-8")) if recipe.is_file() else {}
    require_packages(packages_of(settings) | config.packages)
    names = require_accelerators()
    write_atomic(job.out / "accelerators.json", canonical_json({"names": names}).encode())
    job.figures.update(accelerators=len(names))
