"""Stages that would load their model on a CPU, of a cluster that has accelerators: seldom meant, and found late, after
others have paid for captions.
"""

from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_configs import students_of
from rubricworks.runtime.preflight_checks import TINY
from rubricworks.runtime.stage_table import STAGES


def accelerator_warnings(recipe: Recipe) -> list[str]:
    """The recipe's stages that load a model and ask for no accelerator.

    None where no pool has accelerators, nor where every student is a tiny one: a CPU is meant there.
    """
    cluster, students = recipe.cluster, students_of(recipe).values()
    if cluster is None or not any(pool.accelerator for pool in cluster.pools.values()):
        return []
    if students and set(students) <= set(TINY):
        return []
    idle = {stage for stage, config in recipe.stage_configs().items() if getattr(config, "committee", True) is None}
    named = [stage for stage in recipe.stage_names() if stage not in idle and not cluster.placement(stage).accelerators]
    return [stage for stage in named if STAGES[stage].image == "trainer"]
