"""Check the trainer image's packages, and one accelerator of a pool, before a stage waits for all that it needs."""

from typing import Any

import yaml

from rubricworks.runtime.accelerators import require_accelerators
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import require_packages
from rubricworks.storage import write_atomic


class Config(StageConfig):
    """No settings: the number of accelerators is in the pod's environment, the recipe in the run's folder."""


def run(config: Config, job: Job) -> None:
    recipe = job.run / "recipe.yaml"
    require_packages(packages_of(yaml.safe_load(recipe.read_text(encoding="utf-8")) if recipe.is_file() else {}))
    names = require_accelerators()
    write_atomic(job.out / "accelerators.json", canonical_json({"names": names}).encode())
    job.figures.update(accelerators=len(names))


def packages_of(recipe: Any) -> dict[str, str]:
    """Package that the recipe's stages import in the trainer image → what needs it."""
    packages = {"torch": "a stage that loads a model", "trl": "a policy's training", "kfp": "a task of a pipeline"}
    return packages | ({"vllm": "vllm.mode: colocate"} if _colocates(recipe) else {})


def _colocates(value: Any) -> bool:
    """Return True if a `vllm` section somewhere in a recipe has the mode colocate."""
    if isinstance(value, list):
        return any(map(_colocates, value))
    if not isinstance(value, dict):
        return False
    vllm = value.get("vllm")
    return (isinstance(vllm, dict) and vllm.get("mode") == "colocate") or any(map(_colocates, value.values()))
