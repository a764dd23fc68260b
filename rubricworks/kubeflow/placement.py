"""Placement of a pipeline's task on a cluster: a recipe's `cluster:` section applied with kfp-kubernetes.

kfp-kubernetes cannot set dropped capabilities, privilege escalation and the seccomp profile; the backend sets them, and
docs/cluster.md lists the settings of the namespace.

Pod plans for the further pods of a stage: the nodes of a TrainJob, the parts of a fan-out.

They get the image, resources, nodes, volumes and variables of the stage's own pod; secrets go by reference.

Image names on a cluster: with a registry, since nodes look for any other name on a public hub.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kfp import kubernetes
from kfp.dsl import PipelineTask

from rubricworks.components import images
from rubricworks.errors import UserError
from rubricworks.kubeflow.environment import labels_of, variables_of
from rubricworks.kubernetes import FAN_OUT, TRAIN_JOB
from rubricworks.kubernetes.config import FanOutPlan, PodPlan, ServePlan, TrainJobPlan
from rubricworks.recipe.cluster import DEFAULT, WORKSPACE, ClusterConfig
from rubricworks.recipe.placement import NodeTerm, PoolConfig, StagePlacement, merge_keys
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


FOLLOWER = {"cpu": "1", "memory": "2Gi", "accelerators": 0, "shared_memory": None}
"""Resources of a stage's own pod while a TrainJob does its work."""


def plans_of(stage: str, image: str, cluster: ClusterConfig, placement: StagePlacement) -> dict[str, str]:
    """Environment variable → plan as JSON, for the stage that creates the pods."""
    plans: dict[str, TrainJobPlan | FanOutPlan] = {}
    pod = pod_plan(stage, image, cluster, placement)
    if job := placement.train_job:
        rollouts = None
        if server := job.rollouts:
            server_fields = {"pool": server.pool or placement.pool, "accelerators": server.accelerators}
            server_image = image_on_cluster("vllm", images.VLLM, cluster)
            rollouts = pod_plan(stage, server_image, cluster, placement.model_copy(update=server_fields))
        plans[TRAIN_JOB] = TrainJobPlan(namespace=cluster.namespace, job=job, pod=pod, rollouts=rollouts)
    if placement.fan_out:
        plans[FAN_OUT] = FanOutPlan(namespace=cluster.namespace, fan_out=placement.fan_out, pod=pod)
    return {name: plan.model_dump_json(exclude_defaults=True) for name, plan in plans.items()}


def serve_plan(stage: str | None, cluster: ClusterConfig, called: Mapping[str, Sequence[str]]) -> str | None:
    """Plan, as JSON, of the served models that a stage calls; None if it calls none.

    Args:
        stage: None for the exit task of the run, which stops what is left.
        called: name of each served model → stages that call it.
    """
    names = [name for name, stages in called.items() if stage is None or stage in stages]
    if not names:
        return None
    image = image_on_cluster("vllm", images.VLLM, cluster)
    pods = {}
    for name in names if stage is not None else ():
        placement = cluster.server_placement(name)
        # The definition has the number of accelerators; a pool without any gives none.
        has_accelerator = cluster.pools.get(placement.pool or "", PoolConfig()).accelerator is not None
        pods[name] = pod_plan(name, image, cluster, placement.model_copy(update={"accelerators": int(has_accelerator)}))
    callers = {name: tuple(called[name]) for name in names}
    plan = ServePlan(namespace=cluster.namespace, kserve=cluster.kserve, pods=pods, callers=callers)
    return plan.model_dump_json(exclude_defaults=True)


def pod_plan(stage: str, image: str, cluster: ClusterConfig, placement: StagePlacement) -> PodPlan:
    """Plan of a pod with a stage's placement."""
    pool = cluster.pools.get(placement.pool or "", PoolConfig())
    volumes, mounts = _volumes(cluster, placement)
    return PodPlan(
        image=image,
        cpu=placement.cpu,
        memory=placement.memory,
        accelerator=pool.accelerator if placement.accelerators else None,
        accelerators=placement.accelerators or 0,
        shared_memory=placement.shared_memory,
        ephemeral_storage=_ephemeral_storage(cluster, placement),
        node_selector=pool.node_selector,
        tolerations=tuple(_toleration(toleration.model_dump(exclude_none=True)) for toleration in pool.tolerations),
        affinity=_affinity(pool.affinity),
        service_account=cluster.worker_service_account or cluster.service_account,
        labels=labels_of(stage, cluster, placement, pool),
        env=tuple(_environment(cluster, placement)),
        image_pull_secrets=cluster.images.pull_secrets,
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        run_as_user=cluster.run_as_user,
    )


def _ephemeral_storage(cluster: ClusterConfig, placement: StagePlacement) -> str | None:
    """Part of the node's disk that a pod requests; None if its files lie on a volume, or take no more than the default.

    The default is a limit that most stages stay far below: requested, it would keep their pods off small nodes.
    """
    on_node = cluster.workspace.storage_class is None and cluster.runs_claim() is None
    return (placement.workspace or cluster.workspace.size) if on_node else None


def _toleration(fields: dict[str, object]) -> dict[str, object]:
    if "seconds" in fields:
        fields["tolerationSeconds"] = fields.pop("seconds")
    return fields


def _affinity(terms: tuple[NodeTerm, ...]) -> dict[str, object] | None:
    required = [term.match_expression for term in terms if term.weight is None]
    preferred = [
        {"weight": term.weight, "preference": {"matchExpressions": [term.match_expression]}}
        for term in terms
        if term.weight
    ]
    node: dict[str, object] = {}
    if required:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [{"matchExpressions": required}]}
    if preferred:
        node["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"nodeAffinity": node} if node else None


def _environment(cluster: ClusterConfig, placement: StagePlacement) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": value} for name, value in variables_of(cluster, placement).items()]
    kinds = (("secretKeyRef", "secrets"), ("configMapKeyRef", "config_maps"))
    return plain + [
        {"name": variable, "valueFrom": {kind: {"name": name, "key": key}}}
        for kind, field in kinds
        for name, keys in merge_keys(getattr(cluster, field), getattr(placement, field)).items()
        for key, variable in keys.items()
    ]


def _volumes(cluster: ClusterConfig, placement: StagePlacement) -> tuple[list[dict[str, Any]], list[dict[str, object]]]:
    size, storage_class = cluster.workspace_size(placement), cluster.workspace.storage_class
    if storage_class:
        claim_spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        }
        workspace: dict[str, object] = {"ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}
    else:
        workspace = {"emptyDir": {"sizeLimit": size}}
    volumes: list[dict[str, object]] = [{"name": "workspace", **workspace}]
    mounts: list[dict[str, object]] = [{"name": "workspace", "mountPath": WORKSPACE}]
    for number, mount in enumerate(cluster.claim_mounts()):
        sub_path = {"subPath": mount.sub_path} if mount.sub_path else {}
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": mount.claim}})
        mounts.append({"name": f"claim-{number}", "mountPath": mount.folder, **sub_path})
    for secret, folder in cluster.secret_files.items():
        volumes.append({"name": secret, "secret": {"secretName": secret}})
        mounts.append({"name": secret, "mountPath": folder, "readOnly": True})
    for config_map, folder in cluster.config_map_files.items():
        volumes.append({"name": config_map, "configMap": {"name": config_map}})
        mounts.append({"name": config_map, "mountPath": folder, "readOnly": True})
    return volumes, mounts


def image_on_cluster(role: str, default: str, cluster: ClusterConfig) -> str:
    """Image of a role as the cluster's nodes pull it.

    Args:
        role: field of `cluster.images`.
        default: name that `make images` gives it.
    Raises:
        UserError: the name has no registry, so that anybody's image of that name on a public hub would run with the
            run's secrets. With `pull_policy: Never` nothing is pulled, and any name is valid.
    """
    image: str | None = getattr(cluster.images, role)
    if cluster.images.pull_policy == "Never" or (image and _has_registry(image)):
        return image or default
    state = f"cluster.images.{role} is {image!r}" if image else f"cluster.images.{role} is not set"
    raise UserError(
        f"{state}, and nodes would look for {image or default} on a public hub; name your registry, as in "
        f"cluster.images: {{{role}: registry.example/team/{image or default}}} (docker/build.sh pushes it), or set "
        "cluster.images.pull_policy: Never where every node holds it"
    )


def _has_registry(image: str) -> bool:
    """Return True if the part before the first slash is a host, by the rule of the container runtimes."""
    host, slash, _ = image.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")
