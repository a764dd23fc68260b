"""What a recipe hands to the tasks that a pipeline has on a cluster alone."""

from typing import Any

import yaml

from rubricworks.llm import Endpoint
from rubricworks.recipe.recipe import Recipe
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.runtime.preflight_checks import DataSource
from rubricworks.stages.cluster.outcome import Config as OutcomeConfig
from rubricworks.stages.cluster.preflight import Config as PreflightConfig
from rubricworks.stages.cluster.preflight import NamedEndpoint


def cluster_json(recipe: Recipe) -> dict[str, str]:
    """Stage → its configuration as canonical JSON, for a pipeline on a cluster: `preflight` and `outcome` too."""
    return recipe.stage_json() | {task: canonical_json(one) for task, one in cluster_only_configs(recipe).items()}


def cluster_only_configs(recipe: Recipe) -> dict[str, StageConfig]:
    """`preflight` and `outcome` → their configurations."""
    return {"preflight": _preflight(recipe), "outcome": OutcomeConfig(seed=recipe.seed)}


def recipe_text(recipe: Recipe) -> str:
    """As it is run: an arm with its values, and without the other arms."""
    settings = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"arms"})
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def different_endpoints(recipe: Recipe) -> list[tuple[str, Endpoint]]:
    """Each different endpoint once, with the field that names it first."""
    found: dict[tuple[object, ...], tuple[str, Endpoint]] = {}
    for where, endpoint in recipe.endpoints():
        found.setdefault((endpoint.url, endpoint.replicas, endpoint.model, endpoint.api_key_env), (where, endpoint))
    return list(found.values())


def data_source(recipe: Any) -> DataSource | None:
    """Where the recipe's samples come from; None where its pipeline finds them by itself."""
    if (data := getattr(recipe, "data", None)) is None or not getattr(data, "source", None):
        return None
    if hasattr(data, "columns"):
        return DataSource(kind="questions", source=data.source, columns=data.columns)
    return DataSource(kind="images", source=data.source, allowed_hosts=data.allowed_hosts)


def students_of(recipe: Any) -> dict[str, str]:
    """The models that the recipe starts from, by the field that names each; a retraining finds its own."""
    students = {name: getattr(getattr(recipe, name, None), "student", None) for name in ("warm_up", "genrm")}
    return {f"{name}.student": student for name, student in students.items() if student}


def _preflight(recipe: Any) -> PreflightConfig:
    return PreflightConfig(
        seed=recipe.seed,
        recipe=recipe_text(recipe),
        storage=recipe.cluster.storage if recipe.cluster and recipe.cluster.runs_claim() is None else None,
        data=data_source(recipe),
        endpoints=tuple(NamedEndpoint(where=where, endpoint=one) for where, one in different_endpoints(recipe)),
        models=students_of(recipe),
        tracking=recipe.tracking,
        budget=recipe.budget,
    )
