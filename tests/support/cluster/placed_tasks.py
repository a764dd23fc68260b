"""A compiled pipeline as a table: what Kubernetes is asked for each task, read back by Kubeflow's own messages.

python tests/pipelines/placed_tasks.py     writes the tables that test_placement.py compares with, to be looked at
"""

import json
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from kfp.kubernetes import kubernetes_executor_config_pb2 as kubernetes_messages
from kfp.pipeline_spec.pipeline_spec_pb2 import ComponentSpec, PipelineSpec, PlatformSpec

from rubricworks.kubeflow.compile import compile_specs
from rubricworks.pipelines.balcaprl import balcaprl
from rubricworks.pipelines.retrain import retrain
from rubricworks.pipelines.rlr3 import rlr3
from rubricworks.pipelines.rubicap import rubicap
from rubricworks.recipe import ClusterConfig

TABLES = Path(__file__).parent / "placed"
PIPELINES = {"rubicap": rubicap, "rlr3": rlr3, "balcaprl": balcaprl}

H100 = {
    "accelerator": "nvidia.com/gpu",
    "per_node": 8,
    "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
    "affinity": [
        {"key": "topology.kubernetes.io/zone", "values": ["a", "b"]},
        {"key": "gpu-memory", "operator": "Gt", "values": [70]},
        {"key": "spot", "operator": "DoesNotExist", "weight": 20},
    ],
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "value": "vision", "effect": "NoExecute", "seconds": 300},
    ],
    "queue": "h100-queue",
}
CLUSTER = {
    "storage": "s3://models/runs",
    "namespace": "vision",
    "images": {
        "cpu": "registry.example/rubricworks/cpu@sha256:" + "c" * 64,
        "trainer": "registry.example/rubricworks/trainer@sha256:" + "7" * 64,
        "pull_policy": "IfNotPresent",
        "pull_secrets": ["registry"],
    },
    "production": True,
    "pools": {"cpu": {"node_selector": {"pool": "cpu"}}, "h100": H100},
    "stages": {
        "default": {"pool": "cpu", "timeout": "6h"},
        "warm_up": {"pool": "h100", "accelerators": 1, "cpu": 12, "memory": "120Gi", "shared_memory": "8Gi"},
        "preflight": {"cpu": "500m", "memory": "1Gi", "retries": 0, "timeout": 600},
    },
    "workspace": {"size": "200Gi", "storage_class": "fast"},
    "claims": {"hub-cache": "/models"},
    "queue": "cpu-queue",
    "labels": {"team": "vision"},
    "env": {"HF_HOME": "/models", "MLFLOW_TRACKING_URI": "https://mlflow.example"},
    "secrets": {"s3-keys": {"access": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY"}},
    "config_maps": {"proxies": {"https": "HTTPS_PROXY"}},
    "run_as_user": 10001,
    "pipeline_root": "s3://models/kubeflow",
}
TRAINED_LONGEST = {"rubicap": "train_policy", "rlr3": "train_rlr3", "balcaprl": "train_balcaprl"}
ALL_GPUS = {
    "pool": "h100",
    "accelerators": 8,
    "cpu": 96,
    "memory": "800Gi",
    "shared_memory": "64Gi",
    "timeout": "2d",
    "retries": 5,
    "secrets": {"judge": {"key": "JUDGE_KEY"}},
    "env": {"NCCL_DEBUG": "WARN"},
}


def cluster_of(pipeline: str, **changes: Any) -> ClusterConfig:
    """A cluster with two pools, one of them for this pipeline's trainings; a retraining may take those of any."""
    trained = TRAINED_LONGEST.values() if pipeline == "retrain" else [TRAINED_LONGEST[pipeline]]
    stages = {**CLUSTER["stages"], **dict.fromkeys(trained, ALL_GPUS)}  # type: ignore[dict-item]
    return ClusterConfig.model_validate({**CLUSTER, "stages": stages, **changes})


def table_of(spec: PipelineSpec, platform: PlatformSpec) -> dict[str, dict[str, Any]]:
    """Task → what it runs, what it waits for, what it is given and where it may run."""
    placed = platform.platforms["kubernetes"].deployment_spec.executors
    executors = json_format.MessageToDict(spec.deployment_spec)["executors"]
    table = {}
    for name, task in tasks_of(spec).items():
        label = spec.components[task.component_ref.name].executor_label
        container = executors[label]["container"]
        settings = kubernetes_messages.KubernetesExecutorConfig()
        json_format.ParseDict(json_format.MessageToDict(placed[label]), settings)
        table[name] = {
            "image": container["image"],
            "resources": container["resources"],
            "env": {entry["name"]: entry["value"] for entry in container["env"]},
            "after": sorted(task.dependent_tasks),
            "cached": task.caching_options.enable_cache,
            "retries": task.retry_policy.max_retry_count,
            "kubernetes": _plain(json_format.MessageToDict(settings)),
        }
    return table


def short_table_of(table: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Task → what it waits for, and what it may take; for a retraining, whose stages are told whole in other tables."""
    return {task: _short(row) for task, row in table.items()}


def _short(row: dict[str, Any]) -> str:
    resources = row["resources"]
    gpus = (
        f"{resources['accelerator']['resourceCount']} of {resources['accelerator']['resourceType']}, "
        if "accelerator" in resources
        else ""
    )
    pool = ",".join(row["kubernetes"]["nodeSelector"]["labels"].values())
    again = f"{row['retries']} retries{', cached' if row['cached'] else ''}"
    return f"on {pool}: {gpus}{resources['resourceMemoryLimit']}, {again}; after {', '.join(row['after']) or 'none'}"


def tasks_of(spec: PipelineSpec) -> dict[str, Any]:
    """Every task with a pod, those of groups too."""
    tasks: dict[str, Any] = {}

    def look(component: ComponentSpec) -> None:
        for name, task in component.dag.tasks.items():
            inner = spec.components[task.component_ref.name]
            if inner.executor_label:
                tasks[name] = task
            else:
                look(inner)

    look(spec.root)
    return tasks


def _plain(settings: Any) -> Any:
    """Without the second form in which the messages say a name."""
    if isinstance(settings, dict):
        return {name: _plain(value) for name, value in settings.items() if not name.endswith("NameParameter")}
    return [_plain(value) for value in settings] if isinstance(settings, list) else settings


if __name__ == "__main__":
    TABLES.mkdir(exist_ok=True)
    for name, pipeline in PIPELINES.items():
        table = table_of(*compile_specs(pipeline, cluster_of(name)))
        (TABLES / f"{name}.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    table = short_table_of(table_of(*compile_specs(retrain, cluster_of("retrain"))))
    (TABLES / "retrain.json").write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
