"""Placement of a pipeline's task on a cluster: a recipe's `cluster:` section applied with kfp-kubernetes.

kfp-kubernetes cannot set dropped capabilities, privilege escalation and the seccomp profile; the backend sets them, and
docs/cluster.md lists the settings of the namespace.
"""

from kfp import kubernetes
from kfp.dsl import PipelineTask

from rubricworks.components import images
from rubricworks.kubeflow.environment import WORKSPACE, labels_of, variables_of
from rubricworks.kubeflow.image_names import image_on_cluster
from rubricworks.kubeflow.pod_plan import FOLLOWER, plans_of
from rubricworks.recipe.cluster import DEFAULT, ClusterConfig
from rubricworks.recipe.placement import PoolConfig, StagePlacement, merge_keys
from rubricworks.runtime.accelerators import NODE_ENV
from rubricworks.runtime.attempts import ATTEMPT_ENV, ATTEMPT_FIELD

_ROLES = {images.CPU: "cpu", images.TRAINER: "trainer"}
_FIRST_PAUSE, _LONGEST_PAUSE = "30s", "600s"
"""Pauses between attempts; each is twice the one before, up to the longest."""


def stage_of(task: PipelineTask) -> str:
    """Stage of a task; a stage that occurs twice in a pipeline has two tasks."""
    return task.component_spec.name.replace("-", "_")


def place(task: PipelineTask, cluster: ClusterConfig, placement: StagePlacement, *, cached: bool) -> None:
    """Set a task's image, resources, nodes, volumes, environment and retries.

    Args:
        placement: the stage's placement with its defaults filled in.
        cached: default of `placement.cache`: True if Kubeflow may skip the task.
    """
    if role := _ROLES.get(task.container_spec.image):
        task.set_container_image(image_on_cluster(role, task.container_spec.image, cluster))
    plans = plans_of(stage_of(task), task.container_spec.image, cluster, placement)
    if placement.train_job:
        placement = placement.model_copy(update={**FOLLOWER, "pool": cluster.placement(DEFAULT).pool})
    pool = cluster.pools.get(placement.pool or "", PoolConfig())
    task.set_caching_options(placement.cache if placement.cache is not None else cached)
    if placement.retries:
        task.set_retry(placement.retries, _FIRST_PAUSE, 2.0, _LONGEST_PAUSE)
    if placement.timeout:
        kubernetes.set_timeout(task, placement.timeout)
    _set_resources(task, placement, pool)
    _select_nodes(task, pool)
    _mount(task, cluster, placement)
    _set_environment(task, cluster, placement)
    for name, plan in plans.items():
        task.set_env_variable(name, plan)
    for key, value in labels_of(stage_of(task), cluster, placement, pool).items():
        kubernetes.add_pod_label(task, key, value)
    kubernetes.set_security_context(task, run_as_user=cluster.run_as_user, run_as_non_root=True)
    if cluster.images.pull_policy:
        kubernetes.set_image_pull_policy(task, cluster.images.pull_policy)
    if cluster.images.pull_secrets:
        kubernetes.set_image_pull_secrets(task, list(cluster.images.pull_secrets))


def _set_resources(task: PipelineTask, placement: StagePlacement, pool: PoolConfig) -> None:
    """Set equal requests and limits, so that a neighbour cannot take a stage's resources."""
    task.set_cpu_request(placement.cpu).set_cpu_limit(placement.cpu)
    task.set_memory_request(placement.memory).set_memory_limit(placement.memory)
    if placement.accelerators:
        task.set_accelerator_type(pool.accelerator).set_accelerator_limit(placement.accelerators)


def _select_nodes(task: PipelineTask, pool: PoolConfig) -> None:
    for key, value in pool.node_selector.items():
        kubernetes.add_node_selector(task, key, value)
    # The expressions of one term must all hold; several terms would be alternatives.
    if required := [term.match_expression for term in pool.affinity if term.weight is None]:
        kubernetes.add_node_affinity(task, match_expressions=required)
    for term in pool.affinity:
        if term.weight is not None:
            kubernetes.add_node_affinity(task, match_expressions=[term.match_expression], weight=term.weight)
    for taint in pool.tolerations:
        kubernetes.add_toleration(
            task,
            key=taint.key,
            operator=taint.operator,
            value=taint.value,
            effect=taint.effect,
            toleration_seconds=taint.seconds,
        )


def _mount(task: PipelineTask, cluster: ClusterConfig, placement: StagePlacement) -> None:
    size, storage_class = cluster.workspace_size(placement), cluster.workspace.storage_class
    if storage_class:
        kubernetes.add_ephemeral_volume(
            task, "workspace", WORKSPACE, ["ReadWriteOnce"], size, storage_class_name=storage_class
        )
    else:
        # A pipeline has no word for a request of ephemeral storage (kfp 2.17), which the pods of a Job have.
        kubernetes.empty_dir_mount(task, "workspace", WORKSPACE, size_limit=size)
    if placement.shared_memory:
        kubernetes.empty_dir_mount(task, "shared-memory", "/dev/shm", "Memory", placement.shared_memory)
    for mount in cluster.claim_mounts():
        kubernetes.mount_pvc(task, mount.claim, mount.folder, sub_path=mount.sub_path)
    for secret, folder in cluster.secret_files.items():
        kubernetes.use_secret_as_volume(task, secret, folder)
    for config_map, folder in cluster.config_map_files.items():
        kubernetes.use_config_map_as_volume(task, config_map, folder)


def _set_environment(task: PipelineTask, cluster: ClusterConfig, placement: StagePlacement) -> None:
    for name, value in variables_of(cluster, placement).items():
        task.set_env_variable(name, value)
    if placement.accelerators:
        kubernetes.use_field_path_as_env(task, NODE_ENV, "spec.nodeName")
    if placement.retries:
        kubernetes.use_field_path_as_env(task, ATTEMPT_ENV, ATTEMPT_FIELD)
    for secret, keys in merge_keys(cluster.secrets, placement.secrets).items():
        kubernetes.use_secret_as_env(task, secret, keys)
    for config_map, keys in merge_keys(cluster.config_maps, placement.config_maps).items():
        kubernetes.use_config_map_as_env(task, config_map, keys)
