"""Warning about stages that would load their model on a CPU of a cluster that has accelerators.

This is rarely intended, and shows up late, after other stages have paid for captions.
"""

from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import student_models
from rubricworks.runtime.preflight_checks import TINY
from rubricworks.runtime.stage_table import STAGES


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
    idle = {stage for stage, config in recipe.stage_configs().items() if getattr(config, "committee", True) is None}
    return [
        stage
        for stage in recipe.stage_names()
        if stage not in idle and STAGES[stage].image == "trainer" and not cluster.placement(stage).accelerators
    ]
