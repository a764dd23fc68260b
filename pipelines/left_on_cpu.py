"""Stages that would load their model on a CPU, of a cluster that has accelerators: seldom meant, and found late, after
others have paid for captions.
"""

from importlib import import_module

from rubricworks.components import images
from rubricworks.recipe import Recipe
from rubricworks.recipe.cluster_run import students_of
from rubricworks.stages.needs import TINY


def left_on_cpu(recipe: Recipe) -> list[str]:
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
    return [stage for stage in named if _loads_a_model(stage)]


def _loads_a_model(stage: str) -> bool:
    """Whether its component takes the image of such stages."""
    component = getattr(import_module(f"rubricworks.components.{stage}"), stage)
    return bool(component.component_spec.implementation.container.image == images.TRAINER)
