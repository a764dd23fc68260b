"""Placement of a pipeline's task on a cluster: a recipe's `cluster:` section in the terms of kfp-kubernetes.

What kfp-kubernetes has no words for (dropped capabilities, no privilege escalation, the seccomp profile) the backend
sets itself; docs/cluster.md tells what a namespace must be told besides.
"""

from kfp import kubernetes
from kfp.dsl import PipelineTask

from rubricworks.components import images
from rubricworks.kubeflow.environment import WORKSPACE, labels_of, variables_of
from rubricworks.kubeflow.pod_plan import FOLLOWER, plans_of
from rubricworks.recipe.cluster import DEFAULT, RUNS_FOLDER, ClusterConfig
from rubricworks.recipe.placement import NodeTerm, PoolConfig, StagePlacement, merge_keys
from rubricworks.runtime.accelerators import NODE_ENV

_ROLES = {images.CPU: "cpu", images.TRAINER: "trainer"}
_FIRST_PAUSE, _LONGEST_PAUSE = "30s", "600s"
"""Between attempts; each pause is twice the one before."""


def stage_of(task: PipelineTask) -> str:
    """The stage that a task runs; one that stands twice in a pipeline has two tasks."""
    return task.component_spec.name.replace("-", "_")


def place(task: PipelineTask, cluster: ClusterConfig, asked: StagePlacement, *, cached: bool) -> None:
    """Put a task where its stage shall run.

    Args:
        asked: what the stage asks for, complete.
        cached: whether Kubeflow may pass it over, where the recipe does not say.
    """
    if role := _ROLES.get(task.container_spec.image):
        task.set_container_image(getattr(cluster.images, role) or task.container_spec.image)
    plans = plans_of(stage_of(task), task.container_spec.image, cluster, asked)
    if asked.train_job:
        asked = asked.model_copy(update={**FOLLOWER, "pool": cluster.placement(DEFAULT).pool})
    pool = cluster.pools.get(asked.pool or "", PoolConfig())
    task.set_caching_options(asked.cache if asked.cache is not None else cached)
    if asked.retries:
        task.set_retry(asked.retries, _FIRST_PAUSE, 2.0, _LONGEST_PAUSE)
    if asked.timeout:
        kubernetes.set_timeout(task, asked.timeout)
    _give_resources(task, asked, pool)
    _choose_nodes(task, pool)
    _mount(task, cluster, asked)
    _set_environment(task, cluster, asked)
    for name, plan in plans.items():
        task.set_env_variable(name, plan)
    for key, value in labels_of(stage_of(task), cluster, asked, pool).items():
        kubernetes.add_pod_label(task, key, value)
    kubernetes.set_security_context(task, run_as_user=cluster.run_as_user, run_as_non_root=True)
    if cluster.images.pull_policy:
        kubernetes.set_image_pull_policy(task, cluster.images.pull_policy)
    if cluster.images.pull_secrets:
        kubernetes.set_image_pull_secrets(task, list(cluster.images.pull_secrets))


def _give_resources(task: PipelineTask, asked: StagePlacement, pool: PoolConfig) -> None:
    """The same is requested and allowed: what a stage was given, no neighbour can take."""
    task.set_cpu_request(asked.cpu).set_cpu_limit(asked.cpu)
    task.set_memory_request(asked.memory).set_memory_limit(asked.memory)
    if asked.accelerators:
        task.set_accelerator_type(pool.accelerator).set_accelerator_limit(asked.accelerators)


def _choose_nodes(task: PipelineTask, pool: PoolConfig) -> None:
    for key, value in pool.node_selector.items():
        kubernetes.add_node_selector(task, key, value)
    # Expressions of one term must all hold; terms beside each other would be alternatives.
    if needed := [_expression(term) for term in pool.affinity if term.weight is None]:
        kubernetes.add_node_affinity(task, match_expressions=needed)
    for term in pool.affinity:
        if term.weight is not None:
            kubernetes.add_node_affinity(task, match_expressions=[_expression(term)], weight=term.weight)
    for taint in pool.tolerations:
        kubernetes.add_toleration(
            task,
            key=taint.key,
            operator=taint.operator,
            value=taint.value,
            effect=taint.effect,
            toleration_seconds=taint.seconds,
        )


def _expression(term: NodeTerm) -> dict[str, object]:
    return {"key": term.key, "operator": term.operator, "values": list(term.values)}


def _mount(task: PipelineTask, cluster: ClusterConfig, asked: StagePlacement) -> None:
    space = cluster.workspace
    if space.storage_class:
        kubernetes.add_ephemeral_volume(
            task, "workspace", WORKSPACE, ["ReadWriteOnce"], space.size, storage_class_name=space.storage_class
        )
    else:
        kubernetes.empty_dir_mount(task, "workspace", WORKSPACE, size_limit=space.size)
    if asked.shared_memory:
        kubernetes.empty_dir_mount(task, "shared-memory", "/dev/shm", "Memory", asked.shared_memory)
    if runs := cluster.runs_claim():
        claim, folder = runs
        kubernetes.mount_pvc(task, claim, RUNS_FOLDER, sub_path=folder)
    for claim, folder in cluster.claims.items():
        kubernetes.mount_pvc(task, claim, folder)


def _set_environment(task: PipelineTask, cluster: ClusterConfig, asked: StagePlacement) -> None:
    for name, value in variables_of(cluster, asked).items():
        task.set_env_variable(name, value)
    if asked.accelerators:
        kubernetes.use_field_path_as_env(task, NODE_ENV, "spec.nodeName")
    for secret, keys in merge_keys(cluster.secrets, asked.secrets).items():
        kubernetes.use_secret_as_env(task, secret, keys)
    for config_map, keys in merge_keys(cluster.config_maps, asked.config_maps).items():
        kubernetes.use_config_map_as_env(task, config_map, keys)
