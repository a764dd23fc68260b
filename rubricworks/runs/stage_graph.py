"""Order of a pipeline's stages: which ones a stage needs."""

from collections.abc import Collection

from kfp.dsl.base_component import BaseComponent

from rubricworks.kubeflow.compile import pipeline_dags


def stages_before(pipeline_func: BaseComponent, stages: Collection[str]) -> set[str]:
    """Return stages with all those that they need, directly or not, also across branches."""
    needs: dict[str, set[str]] = {}
    inside: dict[str, set[str]] = {}
    spec = pipeline_func.pipeline_spec
    for dag in pipeline_dags(spec):
        for name, task in dag.tasks.items():
            needs.setdefault(name.replace("-", "_"), set()).update(
                other.replace("-", "_") for other in task.dependent_tasks
            )
            component = spec.components[task.component_ref.name]
            if component.HasField("dag"):
                inside[name.replace("-", "_")] = {inner.replace("-", "_") for inner in component.dag.tasks}
    for branch, members in inside.items():
        for member in members:
            needs.setdefault(member, set()).update(needs.get(branch, ()))
    reached, waiting = set[str](), list(stages)
    while waiting:
        stage = waiting.pop()
        if stage in reached:
            continue
        reached.add(stage)
        waiting += needs.get(stage, ())
        waiting += inside.get(stage, ())
    return reached - inside.keys()
