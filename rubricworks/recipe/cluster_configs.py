"""Configurations of the tasks that a pipeline has only on a cluster, and the recipe sections that checks need."""

from typing import Any

import yaml

from rubricworks.recipe.recipe import Recipe
from rubricworks.recipe.served_models import without_definitions
from rubricworks.runtime.config import StageConfig, canonical_json
from rubricworks.stages.cluster.outcome import Config as OutcomeConfig
from rubricworks.stages.cluster.preflight import Config as PreflightConfig
from rubricworks.stages.cluster.preflight import NamedEndpoint


def cluster_stage_json(recipe: Recipe) -> dict[str, str]:
    """Stage → its configuration as canonical JSON, for a pipeline on a cluster: `preflight` and `outcome` too."""
    return recipe.stage_json() | {task: canonical_json(config) for task, config in cluster_only_configs(recipe).items()}


def cluster_only_configs(recipe: Recipe) -> dict[str, StageConfig]:
    """`preflight` and `outcome` → their configurations."""
    return {"preflight": _preflight(recipe), "outcome": OutcomeConfig(seed=recipe.seed)}


def recipe_yaml(recipe: Recipe) -> str:
    """The recipe as it runs, as YAML: an arm with its values, without the other arms."""
    settings = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"arms"})
    settings = without_definitions(settings)
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def distinct_endpoints(recipe: Recipe) -> list[NamedEndpoint]:
    """Each distinct endpoint that exists before the run once, with the first field that names it."""
    shown = {endpoint.identity for endpoint in recipe.image_endpoints()}
    graded = {endpoint.identity: endpoint for endpoint in recipe.logprob_endpoints()}
    endpoints: dict[tuple[object, ...], NamedEndpoint] = {}
    for where, endpoint in recipe.endpoints():
        if endpoint.serve:
            continue
        named = NamedEndpoint(
            where=where,
            endpoint=endpoint,
            sees_images=endpoint.identity in shown,
            logprobs_of=graded.get(endpoint.identity),
        )
        endpoints.setdefault(endpoint.identity, named)
    return list(endpoints.values())


def student_models(recipe: Recipe) -> dict[str, str]:
    """Field → model that the recipe starts from; a retraining names none."""
    students = {name: getattr(getattr(recipe, name), "student", None) for name in type(recipe).model_fields}
    return {f"{name}.student": student for name, student in students.items() if isinstance(student, str)}


def _preflight(recipe: Any) -> PreflightConfig:
    stages = recipe.cluster.stages if recipe.cluster else {}
    fan_outs = tuple(stage for stage, placement in stages.items() if placement.fan_out)
    return PreflightConfig(
        seed=recipe.seed,
        recipe=recipe_yaml(recipe),
        storage=recipe.cluster.storage if recipe.cluster and recipe.cluster.runs_claim() is None else None,
        data=recipe.data_source,
        files=recipe.source_files,
        endpoints=tuple(distinct_endpoints(recipe)),
        models=student_models(recipe),
        tracking=recipe.tracking,
        budget=recipe.budget,
        namespace=recipe.cluster.namespace if fan_outs else None,
        fan_outs=fan_outs,
        promotes=recipe.promotes,
    )
