"""A recipe's `cluster:` section as its pipeline is compiled with it, and what to warn of before that."""

from rubricworks.kubeflow.accelerator_warnings import (
    accelerator_warning,
    idle_accelerator_warning,
    without_idle_accelerators,
)
from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.sizes import colocate_warning, with_planned_workspaces, workspace_warning


def planned_cluster(recipe: Recipe, cluster: ClusterConfig) -> ClusterConfig:
    """The section without idle accelerators, with workspaces that hold the recipe's models and checkpoints."""
    return with_planned_workspaces(recipe, without_idle_accelerators(recipe, cluster))


def placement_warnings(recipe: Recipe) -> list[str]:
    """Warnings of placements that do not fit the recipe's stages, and of memory that they will lack."""
    warnings = (
        accelerator_warning(recipe),
        idle_accelerator_warning(recipe),
        workspace_warning(recipe),
        colocate_warning(recipe),
    )
    return [warning for warning in warnings if warning]
