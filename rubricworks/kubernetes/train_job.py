"""A TrainJob of Kubeflow Trainer: one stage on several nodes, by torchrun, with accelerate's FSDP settings.

The runtime that it names gives the pods their `PET_…` variables (how many nodes there are, which one this is, where
the first is), and torchrun reads them. The rest is ours, as patches of the runtime. The models of
`kubeflow-trainer-api` check what is sent.
"""

from collections.abc import Mapping, Sequence

from rubricworks.kubernetes.config import PodPlan, TrainJobConfig, TrainJobPlan
from rubricworks.kubernetes.connection import Json
from rubricworks.kubernetes.pods import RESTRICTED, environment, mounts, placed, pod_labels, resources

TRAIN_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs"
NODE = "node"
"""Name of the job and of the container in the runtimes that Kubeflow Trainer brings."""
_MANAGER = "rubricworks/train-job"


def train_job(
    plan: TrainJobPlan,
    name: str,
    nodes: int,
    labels: Mapping[str, str],
    stage: Sequence[str],
    env: Mapping[str, str] = {},
) -> Json:
    """The TrainJob as JSON.

    Args:
        labels: to find it and its pods by.
        stage: what follows `python -m rubricworks.runtime`.
        env: further variables of every process.
    """
    from kubeflow_trainer_api import models

    processes = plan.job.processes_per_node or max(1, plan.pod.accelerators)
    pod = pod_patch(plan.pod, labels)
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "labels": {**plan.pod.labels, **labels}},
        "spec": {
            "runtimeRef": {"name": plan.job.runtime, "kind": plan.job.runtime_kind},
            **({"activeDeadlineSeconds": int(plan.job.timeout)} if plan.job.timeout else {}),
            "trainer": {
                "image": plan.pod.image,
                "command": ["python", "-m", "torch.distributed.run", "-m", "rubricworks.runtime", *stage],
                "numNodes": nodes,
                "numProcPerNode": processes,
                "resourcesPerNode": resources(plan.pod),
                "env": environment(plan.pod, {**sharding(plan.job), **_on_cpu(plan.pod), **env}),
            },
            "runtimePatches": [
                {
                    "manager": _MANAGER,
                    "trainingRuntimeSpec": {
                        "template": {
                            "spec": {"replicatedJobs": [{"name": NODE, "template": {"spec": {"template": pod}}}]}
                        }
                    },
                }
            ],
        },
    }
    checked: Json = models.TrainerV1alpha1TrainJob.from_dict(body).to_dict()
    return checked


def pod_patch(plan: PodPlan, labels: Mapping[str, str]) -> Json:
    """What a plan changes of a runtime's pods."""
    container = {"name": NODE, "volumeMounts": mounts(plan), "securityContext": RESTRICTED}
    return {"metadata": {"labels": pod_labels(plan, labels)}, "spec": {"containers": [container], **placed(plan)}}


def sharding(job: TrainJobConfig) -> dict[str, str]:
    """What `accelerate launch --use_fsdp` would put into the environment."""
    if job.sharding == "none":
        return {}
    wrapped = {"FSDP_TRANSFORMER_CLS_TO_WRAP": ",".join(job.wrap)} if job.wrap else {}
    return {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        **wrapped,
        # Whole on the first process: a checkpoint is then one pod's to write, and fits another number of nodes.
        "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_OFFLOAD_PARAMS": str(job.offload).lower(),
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
    }


def _on_cpu(plan: PodPlan) -> dict[str, str]:
    """What `accelerate launch --cpu` would; without it, processes that see no accelerator train apart."""
    return {} if plan.accelerators else {"ACCELERATE_USE_CPU": "true"}


def condition(job: Json, kind: str) -> Json | None:
    """A condition of a TrainJob or a Job that holds."""
    for item in (job.get("status") or {}).get("conditions") or []:
        if item["type"] == kind and item["status"] == "True":
            return dict(item)
    return None
