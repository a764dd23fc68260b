"""A stage's placement as a plan of pods, for a stage that makes further ones: a TrainJob's nodes, a fan-out's parts.

They get what the stage's own pod would: the same image, resources, nodes, volumes and variables, secrets by reference.
"""

from typing import Any

from rubricworks.components import images
from rubricworks.kubeflow.environment import WORKSPACE, labels_of, variables_of
from rubricworks.kubernetes import FAN_OUT, TRAIN_JOB
from rubricworks.kubernetes.config import FanOutPlan, PodPlan, TrainJobPlan
from rubricworks.recipe.cluster import RUNS_FOLDER, ClusterConfig
from rubricworks.recipe.placement import NodeTerm, PoolConfig, StagePlacement, merge_keys

FOLLOWER = {"cpu": "1", "memory": "2Gi", "accelerators": 0, "shared_memory": None}
"""What a stage that only follows a TrainJob asks for itself."""


def plans_of(stage: str, image: str, cluster: ClusterConfig, asked: StagePlacement) -> dict[str, str]:
    """Variable → plan as JSON, for the environment of the stage that makes the pods."""
    plans: dict[str, TrainJobPlan | FanOutPlan] = {}
    pod = pod_plan(stage, image, cluster, asked)
    if job := asked.train_job:
        rollouts = None
        if server := job.rollouts:
            beside = asked.model_copy(update={"pool": server.pool or asked.pool, "accelerators": server.accelerators})
            rollouts = pod_plan(stage, cluster.images.vllm or images.VLLM, cluster, beside)
        plans[TRAIN_JOB] = TrainJobPlan(namespace=cluster.namespace, job=job, pod=pod, rollouts=rollouts)
    if asked.fan_out:
        plans[FAN_OUT] = FanOutPlan(namespace=cluster.namespace, fan_out=asked.fan_out, pod=pod)
    return {name: plan.model_dump_json(exclude_defaults=True) for name, plan in plans.items()}


def pod_plan(stage: str, image: str, cluster: ClusterConfig, asked: StagePlacement) -> PodPlan:
    """One pod like that of a stage."""
    pool = cluster.pools.get(asked.pool or "", PoolConfig())
    volumes, mounts = _volumes(cluster)
    return PodPlan(
        image=image,
        cpu=asked.cpu,
        memory=asked.memory,
        accelerator=pool.accelerator if asked.accelerators else None,
        accelerators=asked.accelerators or 0,
        shared_memory=asked.shared_memory,
        node_selector=pool.node_selector,
        tolerations=tuple(_toleration(one.model_dump(exclude_none=True)) for one in pool.tolerations),
        affinity=_affinity(pool.affinity),
        service_account=cluster.worker_service_account or cluster.service_account,
        labels=labels_of(stage, cluster, asked, pool),
        env=tuple(_environment(cluster, asked)),
        image_pull_secrets=cluster.images.pull_secrets,
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        run_as_user=cluster.run_as_user,
    )


def _toleration(said: dict[str, Any]) -> dict[str, Any]:
    if "seconds" in said:
        said["tolerationSeconds"] = said.pop("seconds")
    return said


def _affinity(terms: tuple[NodeTerm, ...]) -> dict[str, Any] | None:
    needed = [_expression(term) for term in terms if term.weight is None]
    preferred = [
        {"weight": term.weight, "preference": {"matchExpressions": [_expression(term)]}}
        for term in terms
        if term.weight
    ]
    node: dict[str, Any] = {}
    if needed:
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [{"matchExpressions": needed}]}
    if preferred:
        node["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"nodeAffinity": node} if node else None


def _expression(term: NodeTerm) -> dict[str, Any]:
    values = {"values": list(term.values)} if term.values else {}
    return {"key": term.key, "operator": term.operator, **values}


def _environment(cluster: ClusterConfig, asked: StagePlacement) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": value} for name, value in variables_of(cluster, asked).items()]
    kinds = (("secretKeyRef", "secrets"), ("configMapKeyRef", "config_maps"))
    return plain + [
        {"name": variable, "valueFrom": {kind: {"name": name, "key": key}}}
        for kind, field in kinds
        for name, keys in merge_keys(getattr(cluster, field), getattr(asked, field)).items()
        for key, variable in keys.items()
    ]


def _volumes(cluster: ClusterConfig) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    space = cluster.workspace
    if space.storage_class:
        claim_spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": space.storage_class,
            "resources": {"requests": {"storage": space.size}},
        }
        workspace: dict[str, Any] = {"ephemeral": {"volumeClaimTemplate": {"spec": claim_spec}}}
    else:
        workspace = {"emptyDir": {"sizeLimit": space.size}}
    volumes: list[dict[str, Any]] = [{"name": "workspace", **workspace}]
    mounts: list[dict[str, Any]] = [{"name": "workspace", "mountPath": WORKSPACE}]
    places = [(claim, folder, "") for claim, folder in cluster.claims.items()]
    if runs := cluster.runs_claim():
        places.append((runs[0], RUNS_FOLDER, runs[1]))
    for number, (claim, folder, inside) in enumerate(places):
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"claim-{number}", "mountPath": folder} | ({"subPath": inside} if inside else {}))
    return volumes, mounts
