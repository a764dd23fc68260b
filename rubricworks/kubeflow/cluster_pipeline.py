"""A pipeline as it runs on a cluster: the same stages, each in its place, between a first and a last task of its own.

`preflight` comes before every stage, so that what is missing is said before anything is paid for; `outcome` runs
whatever became of the others. A pool's accelerators are looked at once, on one of them, while the stages that need
none go on: a broken driver is found before a day's captions have been bought for it.
"""

import inspect
from collections.abc import Iterator

from kfp import dsl
from kfp.dsl import PipelineTask
from kfp.dsl.graph_component import GraphComponent
from kfp.dsl.pipeline_context import Pipeline

from rubricworks.components.cluster.check_accelerators.component import check_accelerators
from rubricworks.components.cluster.outcome.component import outcome
from rubricworks.components.cluster.preflight.component import preflight
from rubricworks.kubeflow.placement import place, stage_of
from rubricworks.recipe import ClusterConfig
from rubricworks.recipe.cluster import CHECK_ACCELERATORS, CLUSTER_ONLY
from rubricworks.runtime.stage_table import STAGES

_EXPLAINED = """
        preflight_config: JSON of what is checked before the first stage.
        outcome_config: JSON of how the run's end is told.
"""


def on_cluster(pipeline: GraphComponent, cluster: ClusterConfig) -> GraphComponent:
    """The pipeline with every task placed.

    Its parameters are those of the pipeline, and `preflight_config` and `outcome_config`.
    """
    stages = pipeline.pipeline_func
    own = inspect.signature(stages).parameters.values()
    more = [
        inspect.Parameter(f"{name}_config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
        for name in CLUSTER_ONLY
    ]
    signature = inspect.Signature([*own, *more])

    def placed(*given: str) -> None:
        parameters = signature.bind(*given).arguments
        run, beside = parameters["run"], {name: parameters.pop(f"{name}_config") for name in CLUSTER_ONLY}
        last = outcome(config=beside["outcome"], run=run)
        with dsl.ExitHandler(last, name="stages"):
            first = preflight(config=beside["preflight"], run=run)
            begun = set(_tasks())
            stages(**parameters)
            made = [task for name, task in _tasks().items() if name not in begun]
            for task in made:
                if not any(channel.task_name for channel in task.channel_inputs):
                    task.after(first)
            if cluster.check_pools:
                _check_pools(made, first, run, cluster)
        for task in made:
            place(task, cluster, cluster.placement(stage_of(task)), cached=STAGES[stage_of(task)].cacheable)
        for task in (first, last):
            place(task, cluster, cluster.placement(stage_of(task)), cached=False)

    placed.__signature__ = signature  # type: ignore[attr-defined]
    placed.__doc__ = f"{(stages.__doc__ or '').rstrip()}{_EXPLAINED}"
    decorated = dsl.pipeline(name=pipeline.name, pipeline_root=cluster.pipeline_root)
    return decorated(placed)


def _tasks() -> dict[str, PipelineTask]:
    return dict(Pipeline.get_default_pipeline().tasks)


def _check_pools(made: list[PipelineTask], first: PipelineTask, run: str, cluster: ClusterConfig) -> None:
    """Add a task before the stages on each pool with accelerators, which takes one of them for a moment.

    One pool after the other: all of these tasks write the same folder of the run.
    """
    # A stage of a branch waits with its branch, which may never be taken.
    made = [task for task in made if task.parent_task_group is first.parent_task_group]
    before = first
    for pool, stages in _by_pool(made, cluster):
        asked = cluster.placement(CHECK_ACCELERATORS).model_copy(update={"pool": pool, "accelerators": 1})
        check = check_accelerators(config="{}", run=run).after(before)
        check.set_display_name(f"accelerators of {pool}")
        place(check, cluster, asked, cached=False)
        for task in stages:
            task.after(check)
        before = check


def _by_pool(made: list[PipelineTask], cluster: ClusterConfig) -> Iterator[tuple[str, list[PipelineTask]]]:
    for pool in cluster.pools:
        asked = [(task, cluster.placement(stage_of(task))) for task in made]
        if stages := [task for task, one in asked if one.pool == pool and one.accelerators]:
            yield pool, stages
