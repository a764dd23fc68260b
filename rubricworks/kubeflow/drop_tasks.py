"""Removal of stages from a pipeline, for arms, which are compared but not promoted."""

import copy
from collections.abc import Collection, Iterator

from google.protobuf.message import Message
from kfp.dsl.base_component import BaseComponent


def drop_tasks(pipeline_func: BaseComponent, without: Collection[str]) -> BaseComponent:
    """Copy the pipeline without these stages, also inside its branches.

    Raises:
        ValueError: a remaining stage reads the output of a dropped one.
    """
    reduced = copy.deepcopy(pipeline_func)
    spec = reduced.pipeline_spec
    for dag in _dags(spec):
        for name in [name for name in dag.tasks if name.replace("-", "_") in without]:
            del dag.tasks[name]
        if orphans := [name for name, task in dag.tasks.items() if not set(task.dependent_tasks) <= dag.tasks.keys()]:
            raise ValueError(f"{', '.join(orphans)}: takes what was left out; leave it out too")
    used = {task.component_ref.name for dag in _dags(spec) for task in dag.tasks.values()}
    for name in set(spec.components) - used:
        executor = spec.components[name].executor_label
        del spec.components[name]
        spec.deployment_spec["executors"].fields.pop(executor)
        for platform in reduced.platform_spec.platforms.values():
            platform.deployment_spec.executors.pop(executor, None)
    return reduced


def _dags(spec: Message) -> Iterator[Message]:
    """DAG of the pipeline and those of its branches and exit handler."""
    yield spec.root.dag
    yield from (component.dag for component in spec.components.values() if component.HasField("dag"))
