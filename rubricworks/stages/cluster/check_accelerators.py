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
    needs = [f"{section}.{field}: {value}" for section, field, value in _VLLM if _has(recipe, section, field, value)]
    return packages | ({"vllm": needs[0]} if needs else {})


_VLLM = (("vllm", "mode", "colocate"), ("engine", "kind", "vllm"))
"""Section, field and value of a recipe that need vLLM in the stage's own image."""


def _has(tree: Any, section: str, field: str, value: str) -> bool:
    """Return True if a section somewhere in a recipe has the value."""
    if isinstance(tree, list):
        return any(_has(item, section, field, value) for item in tree)
    if not isinstance(tree, dict):
        return False
    here = tree.get(section)
    is_here = isinstance(here, dict) and here.get(field) == value
    return is_here or any(_has(item, section, field, value) for item in tree.values())
