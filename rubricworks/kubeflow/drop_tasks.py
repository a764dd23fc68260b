"""A pipeline without some of its stages: an arm is compared, not promoted; it has none that speaks for its run."""

import copy
from collections.abc import Collection, Iterator

from google.protobuf.message import Message
from kfp.dsl.base_component import BaseComponent


def drop_tasks(pipeline_func: BaseComponent, without: Collection[str]) -> BaseComponent:
    """The pipeline without these stages, wherever in it they stand; itself as it was.

    Raises:
        ValueError: what is left takes from one of them.
    """
    rest = copy.deepcopy(pipeline_func)
    spec = rest.pipeline_spec
    for dag in _dags(spec):
        for name in [name for name in dag.tasks if name.replace("-", "_") in without]:
            del dag.tasks[name]
        if orphans := [name for name, task in dag.tasks.items() if not set(task.dependent_tasks) <= dag.tasks.keys()]:
            raise ValueError(f"{', '.join(orphans)}: takes what was left out; leave it out too")
    needed = {task.component_ref.name for dag in _dags(spec) for task in dag.tasks.values()}
    for name in set(spec.components) - needed:
        executor = spec.components[name].executor_label
        del spec.components[name]
        spec.deployment_spec["executors"].fields.pop(executor)
        for platform in rest.platform_spec.platforms.values():
            platform.deployment_spec.executors.pop(executor, None)
    return rest


def _dags(spec: Message) -> Iterator[Message]:
    """The pipeline's own, and those of its branches and of what the last task waits for."""
    yield spec.root.dag
    yield from (one.dag for one in spec.components.values() if one.HasField("dag"))
