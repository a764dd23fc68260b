"""A recipe's `cluster:` section as its pipeline is compiled with it, and what to warn of before that.

Accelerators that do not fit a recipe's stages: too few for a stage that loads a model, any for one that loads none.

A model on a CPU of a cluster that has accelerators is rarely intended, and shows up late, after other stages have paid
for captions. A stage that loads no model by its recipe gets no accelerators, whatever its placement says: one placement
serves a recipe and its arms, and only some of them have the stage train.
"""

from rubricworks.recipe import ClusterConfig, Recipe
from rubricworks.recipe.cluster_configs import student_models
from rubricworks.recipe.placement import StagePlacement
from rubricworks.recipe.sizes import colocate_warning, with_planned_workspaces, workspace_warning
from rubricworks.runtime.preflight_checks import TINY
from rubricworks.runtime.stage_table import STAGES


def planned_cluster(recipe: Recipe, cluster: ClusterConfig) -> ClusterConfig:
    """The section without idle accelerators, with workspaces that hold the recipe's models and checkpoints."""
    return with_planned_workspaces(recipe, without_idle_accelerators(recipe, cluster))


def placement_warnings(recipe: Recipe) -> list[str]:
    """Warnings about placements that do not fit the recipe's stages: accelerators, workspaces, memory."""
    warnings = (
        accelerator_warning(recipe),
        idle_accelerator_warning(recipe),
        workspace_warning(recipe),
        colocate_warning(recipe),
    )
    return [warning for warning in warnings if warning]


def accelerator_warning(recipe: Recipe) -> str:
    """Warning with the stages, their fields and the suitable pools; empty if there is no such stage."""
    if recipe.cluster is None or not (stages := stages_on_cpu(recipe)):
        return ""
    fields = ", ".join(f"cluster.stages.{stage}.accelerators" for stage in stages)
    pools = ", ".join(name for name, pool in recipe.cluster.pools.items() if pool.accelerator)
    scope = " (only those of the champion's pipeline will run)" if recipe.base_model is None else ""
    return (
        f"stages that load a model ask for no accelerators and would run on a CPU: set {fields}{scope}, and "
        f"their pool to one that has accelerators: {pools}"
    )


def stages_on_cpu(recipe: Recipe) -> list[str]:
    """Stages of the recipe that load a model and request no accelerator.

    Empty if no pool has accelerators or all students are tiny ones, for which a CPU is intended.
    """
    cluster, students = recipe.cluster, student_models(recipe).values()
    if cluster is None or not any(pool.accelerator for pool in cluster.pools.values()):
        return []
    if students and set(students) <= set(TINY):
        return []
    idle = stages_without_model(recipe)
    return [
        stage
        for stage in recipe.stage_names()
        if stage not in idle and STAGES[stage].image == "trainer" and not cluster.placement(stage).accelerators
    ]


def stages_without_model(recipe: Recipe) -> set[str]:
    """Stages that load no model by this recipe: a warm-up without `sft`, others without a committee."""
    configs = recipe.stage_configs().items()
    return {
        stage
        for stage, config in configs
        if getattr(config, "committee", True) is None or (stage == "warm_up" and getattr(config, "sft", True) is None)
    }


def idle_accelerators(recipe: Recipe) -> dict[str, int]:
    """Stage that loads no model → accelerators that its placement asks for."""
    if recipe.cluster is None:
        return {}
    placements = {stage: recipe.cluster.placement(stage) for stage in sorted(stages_without_model(recipe))}
    return {stage: placement.accelerators for stage, placement in placements.items() if placement.accelerators}


def idle_accelerator_warning(recipe: Recipe) -> str:
    """Warning with the stages whose accelerators are not requested; empty if there is no such stage."""
    idle = [f"{stage} ({count} asked for)" for stage, count in idle_accelerators(recipe).items()]
    return f"stages that load no model by this recipe get no accelerators: {', '.join(idle)}" if idle else ""


def without_idle_accelerators(recipe: Recipe, cluster: ClusterConfig) -> ClusterConfig:
    """The cluster section with the default resources, and no accelerators, for stages that load no model."""
    size = {"pool": None, "cpu": None, "memory": None, "shared_memory": None, "accelerators": 0, "train_job": None}
    own = {stage: cluster.stages.get(stage, StagePlacement()) for stage in idle_accelerators(recipe)}
    stages = cluster.stages | {stage: placement.model_copy(update=size) for stage, placement in own.items()}
    return cluster.model_copy(update={"stages": stages})
