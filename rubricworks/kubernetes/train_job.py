"""TrainJob of Kubeflow Trainer: one stage on several nodes under torchrun, with accelerate's FSDP settings.

The training runtime sets the pods' `PET_…` variables (number of nodes, rank, address of the first node), which torchrun
reads. Everything else is a patch of the runtime. The models of `kubeflow-trainer-api` validate the request.
"""

from collections.abc import Mapping, Sequence

from rubricworks.kubernetes.config import PodPlan, TrainJobConfig, TrainJobPlan
from rubricworks.kubernetes.connection import Json
from rubricworks.kubernetes.pods import RESTRICTED, environment, mounts, pod_labels, pod_placement, resources

TRAIN_JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs"
NODE = "node"
"""Name of the job and of the container in Kubeflow Trainer's own runtimes."""
_MANAGER = "rubricworks/train-job"


def train_job(
    plan: TrainJobPlan,
    name: str,
    nodes: int,
    labels: Mapping[str, str],
    stage: Sequence[str],
    env: Mapping[str, str] = {},
) -> Json:
    """Build the TrainJob as JSON.

    Args:
        labels: labels of the TrainJob and its pods, to find them by.
        stage: arguments of `python -m rubricworks.runtime`.
        env: further environment variables of every process.
    """
    from kubeflow_trainer_api import models

    processes = plan.job.processes_per_node or max(1, plan.pod.accelerators)
    pod = pod_patch(plan.pod, labels)
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "labels": {**plan.pod.labels, **labels}},
        "spec": {
            # With a server, the runtime of the TrainJob's own name (rubricworks.kubernetes.rollout_server).
            "runtimeRef": {"name": name, "kind": "TrainingRuntime"}
            if plan.job.rollouts
            else {"name": plan.job.runtime, "kind": plan.job.runtime_kind},
            **({"activeDeadlineSeconds": int(plan.job.timeout)} if plan.job.timeout else {}),
            "trainer": {
                "image": plan.pod.image,
                "command": ["python", "-m", "torch.distributed.run", "-m", "rubricworks.runtime", *stage],
                "numNodes": nodes,
                "numProcPerNode": processes,
                "resourcesPerNode": resources(plan.pod),
                "env": environment(plan.pod, {**fsdp_environment(plan.job), **_cpu_environment(plan.pod), **env}),
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
    validated: Json = models.TrainerV1alpha1TrainJob.from_dict(body).to_dict()
    return validated


def pod_patch(plan: PodPlan, labels: Mapping[str, str]) -> Json:
    """Build the patch that a plan applies to the runtime's pods."""
    container = {"name": NODE, "volumeMounts": mounts(plan), "securityContext": RESTRICTED}
    return {
        "metadata": {"labels": pod_labels(plan, labels)},
        "spec": {"containers": [container], **pod_placement(plan)},
    }


def fsdp_environment(job: TrainJobConfig) -> dict[str, str]:
    """Return the variables that `accelerate launch --use_fsdp` would set."""
    if job.sharding == "none":
        return {}
    wrap = {"FSDP_TRANSFORMER_CLS_TO_WRAP": ",".join(job.wrap)} if job.wrap else {}
    return {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_VERSION": "2",
        "FSDP_RESHARD_AFTER_FORWARD": "true",
        "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
        **wrap,
        # The full state on the first process: one pod writes the checkpoint, and it loads on any number of nodes.
        "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
        "FSDP_OFFLOAD_PARAMS": str(job.offload).lower(),
        # The first process of a node loads the model into host memory, and the others get their shards from it.
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    }


def _cpu_environment(plan: PodPlan) -> dict[str, str]:
    """Return the variables that `accelerate launch --cpu` would set; without them, CPU processes train separately."""
    return {} if plan.accelerators else {"ACCELERATE_USE_CPU": "true"}


def find_condition(job: Json, kind: str) -> Json | None:
    """Return a condition of a TrainJob or Job if its status is True."""
    for item in (job.get("status") or {}).get("conditions") or []:
        if item["type"] == kind and item["status"] == "True":
            return dict(item)
    return None
