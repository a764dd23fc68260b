"""A pipeline for a cluster: the same stages, each with its placement, between a preflight and an outcome task.

`preflight` precedes every stage, so that missing settings are reported before anything costs money, and hands them the
run's folder, named after Kubeflow's run id if it is a schedule's; `outcome` runs also after a failure. One accelerator
of each pool, and the packages of the image used there, are checked while the stages that call no model run: a broken
driver or a missing package is reported before a day's captions have been paid for.
"""

import inspect
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from kfp import dsl
from kfp.dsl import PipelineTask
from kfp.dsl.graph_component import GraphComponent
from kfp.dsl.pipeline_channel import PipelineChannel
from kfp.dsl.pipeline_context import Pipeline
from kfp.dsl.tasks_group import TasksGroup

from rubricworks.components.cluster import check_accelerators, outcome, preflight
from rubricworks.kubeflow.placement import place, serve_plan, stage_of
from rubricworks.kubernetes import SERVE
from rubricworks.recipe import ClusterConfig
from rubricworks.recipe.cluster import CHECK_ACCELERATORS, CLUSTER_ONLY
from rubricworks.runtime.stage_table import STAGES

_PARAMETERS_DOC = """
        preflight_config: JSON of what is checked before the first stage.
        outcome_config: JSON of how the run's end is told.
"""


def place_pipeline(
    pipeline: GraphComponent,
    cluster: ClusterConfig,
    *,
    without: Collection[str] = (),
    served: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> GraphComponent:
    """Build the pipeline with a placement for every task.

    Its parameters are the pipeline's own and `preflight_config` and `outcome_config`.

    Args:
        without: stages that will be dropped, so that no run finishes them.
        served: name of each model that the run serves → stages that call it.
    """
    stages = pipeline.pipeline_func
    own = inspect.signature(stages).parameters.values()
    extra = [
        inspect.Parameter(f"{name}_config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=str)
        for name in CLUSTER_ONLY
    ]
    signature = inspect.Signature([*own, *extra])

    def placed_pipeline(*arguments: str) -> None:
        parameters = signature.bind(*arguments).arguments
        run, configs = parameters["run"], {name: parameters.pop(f"{name}_config") for name in CLUSTER_ONLY}
        last = outcome(
            config=configs["outcome"],
            run=run,
            run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER,
            pipeline=_what_a_run_finishes(pipeline, without),
        )
        with dsl.ExitHandler(last, name="stages"):
            first = preflight(config=configs["preflight"], run=run, run_id=dsl.PIPELINE_JOB_ID_PLACEHOLDER)
            earlier = set(_tasks())
            # An output of the first task: so no stage starts before it, and Kubeflow's cache knows runs apart.
            stages(**{**parameters, "run": first.outputs["run"]})
            stage_tasks = [task for name, task in _tasks().items() if name not in earlier]
            if cluster.check_pools:
                _check_pools(stage_tasks, first, cluster)
        for task in stage_tasks:
            place(task, cluster, cluster.placement(stage_of(task)), cached=STAGES[stage_of(task)].cacheable)
        for task in (first, last):
            place(task, cluster, cluster.placement(stage_of(task)), cached=False)
        called = {name: [stage for stage in stages if stage not in without] for name, stages in served.items()}
        for task in (*stage_tasks, last):
            if plan := serve_plan(None if task is last else stage_of(task), cluster, called):
                task.set_env_variable(SERVE, plan)

    placed_pipeline.__signature__ = signature  # type: ignore[attr-defined]
    placed_pipeline.__doc__ = f"{(stages.__doc__ or '').rstrip()}{_PARAMETERS_DOC}"
    decorated = dsl.pipeline(name=pipeline.name, pipeline_root=cluster.pipeline_root)
    return decorated(placed_pipeline)


def _what_a_run_finishes(pipeline: GraphComponent, without: Collection[str]) -> str:
    """JSON of the stages outside all branches, and whether there are branches, for `outcome`."""
    spec = pipeline.pipeline_spec
    components = [spec.components[task.component_ref.name] for task in spec.root.dag.tasks.values()]
    executors = spec.deployment_spec["executors"]
    # The name of a component's function is its stage's.
    names = {
        executors[component.executor_label]["container"]["args"][-1]
        for component in components
        if component.executor_label
    }
    branches = any(component.HasField("dag") for component in components)
    return json.dumps({"expected": sorted(names - {*without}), "branches": branches})


def _tasks() -> dict[str, PipelineTask]:
    return dict(Pipeline.get_default_pipeline().tasks)


def _check_pools(tasks: list[PipelineTask], first: PipelineTask, cluster: ClusterConfig) -> None:
    """Add, for each pool with accelerators, a task that uses one accelerator for a moment.

    The stages that call models wait for all of these tasks, and so do those of each pool for its own. A branch has
    tasks of its own, since it may never run. The tasks run one after the other, because all of them write the same
    folder of the run.
    """
    groups: dict[int, list[PipelineTask]] = {}
    for task in tasks:
        groups.setdefault(id(task.parent_task_group), []).append(task)
    for group_tasks in groups.values():
        previous = first if group_tasks[0].parent_task_group is first.parent_task_group else None
        for pool, pool_tasks in _by_pool(group_tasks, cluster):
            placement = cluster.placement(CHECK_ACCELERATORS).model_copy(update={"pool": pool, "accelerators": 1})
            with _inside(group_tasks[0].parent_task_group):
                check = check_accelerators(config=_check_config(group_tasks), run=first.outputs["run"])
            if previous:
                check.after(previous)
            check.set_display_name(f"accelerators of {pool}")
            place(check, cluster, placement, cached=False)
            for task in group_tasks:
                if task in pool_tasks or STAGES[stage_of(task)].calls_models:
                    task.after(check)
            previous = check


@contextmanager
def _inside(group: TasksGroup) -> Iterator[None]:
    """Add tasks to a group that was closed."""
    groups = Pipeline.get_default_pipeline().groups
    groups.append(group)
    try:
        yield
    finally:
        groups.pop()


def _check_config(tasks: list[PipelineTask]) -> str | PipelineChannel:
    """Configuration of a check: a branch's stages get theirs from a task, and the check is among them."""
    configs = [task.inputs["config"] for task in tasks]
    made = [config for config in configs if isinstance(config, PipelineChannel) and config.task_name]
    return made[0] if made else "{}"


def _by_pool(tasks: list[PipelineTask], cluster: ClusterConfig) -> Iterator[tuple[str, list[PipelineTask]]]:
    for pool in cluster.pools:
        placements = [(task, cluster.placement(stage_of(task))) for task in tasks]
        if pool_tasks := [task for task, placement in placements if placement.pool == pool and placement.accelerators]:
            yield pool, pool_tasks
