"""Pod plans for the further pods of a stage: the nodes of a TrainJob, the parts of a fan-out.

They get the image, resources, nodes, volumes and variables of the stage's own pod; secrets go by reference.
"""

from typing import Any

from rubricworks.components import images
from rubricworks.kubeflow.environment import WORKSPACE, labels_of, variables_of
from rubricworks.kubeflow.image_names import image_on_cluster
from rubricworks.kubernetes import FAN_OUT, TRAIN_JOB
from rubricworks.kubernetes.config import FanOutPlan, PodPlan, TrainJobPlan
from rubricworks.recipe.cluster import ClusterConfig
from rubricworks.recipe.placement import NodeTerm, PoolConfig, StagePlacement, merge_keys

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
