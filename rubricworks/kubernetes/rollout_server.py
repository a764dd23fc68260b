"""vLLM server that generates a training's rollouts: a pod of the TrainJob itself, by a TrainingRuntime of its own.

Trainer makes one JobSet of the server and the nodes. So a queue admits both or neither, the nodes start when the server
is ready, and both go with the TrainJob. The server starts from the training's initial model and receives the weights of
each step over NCCL: the first training process opens the group, and the server's workers join it (TRL's `vllm_mode:
server`).
"""

from collections.abc import Iterable, Mapping

from rubricworks.kubernetes.config import PodPlan, RolloutServer, TrainJobPlan
from rubricworks.kubernetes.connection import Json
from rubricworks.kubernetes.pods import pod_template
from rubricworks.kubernetes.train_job import NODE
from rubricworks.kubernetes.work import StageWork

RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainingruntimes"
ROLLOUTS = "rollouts"
"""Name of the server's job in the JobSet, beside the nodes'."""
PORT = 8000
URL_ENV = "RUBRICWORKS_VLLM_URL"
"""Environment variable with the server's URL; it overrides the stage's configuration."""


def rollout_environment(name: str) -> dict[str, str]:
    """Return the variables by which the processes of the TrainJob `name` find its server; JobSet names the host."""
    return {URL_ENV: f"http://{name}-{ROLLOUTS}-0-0.{name}:{PORT}"}


def rollout_runtime(plan: TrainJobPlan, work: StageWork, name: str, labels: Mapping[str, str]) -> Json:
    """Build the TrainingRuntime of server and nodes; the TrainJob of the same name has the rest of the nodes' plan."""
    from kubeflow_trainer_api import models

    server = server_pod(plan.rollouts or plan.pod, plan.job.rollouts or RolloutServer(), work, labels)
    node = {"containers": [{"name": NODE, "image": plan.pod.image}]}
    body = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {**labels, "trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {
                "spec": {
                    # A server has no end of its own.
                    "successPolicy": {"operator": "All", "targetReplicatedJobs": [NODE]},
                    "replicatedJobs": [
                        # No restarts: a new server has no group by which to receive weights; the training starts anew.
                        {"name": ROLLOUTS, "template": {"spec": {"backoffLimit": 0, "template": server}}},
                        {
                            "name": NODE,
                            "dependsOn": [{"name": ROLLOUTS, "status": "Ready"}],
                            "template": {
                                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                                "spec": {"template": {"spec": node}},
                            },
                        },
                    ],
                }
            },
        },
    }
    validated: Json = models.TrainerV1alpha1TrainingRuntime.from_dict(body).to_dict()
    return validated


def server_pod(plan: PodPlan, options: RolloutServer, work: StageWork, labels: Mapping[str, str]) -> Json:
    """Build the template of the server's pod."""
    command = [
        "python",
        "-m",
        "rubricworks.runtime.pods.rollout_server",
        "--model",
        work.inputs["model"],
        "--",
        *_vllm_arguments(options),
    ]
    accelerators = {"accelerators": options.accelerators} if plan.accelerator else {}
    # TRL updates the weights through vLLM's development endpoints.
    template = pod_template(plan.model_copy(update=accelerators), labels, command, {"VLLM_SERVER_DEV_MODE": "1"})
    health = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 5, "failureThreshold": 3}
    template["spec"]["containers"][0] |= {"readinessProbe": health, "ports": [{"containerPort": PORT}]}
    return template


def is_server(pod: Json) -> bool:
    """Return True for a server's pod, False for a node's."""
    return bool(pod["metadata"].get("labels", {}).get("jobset.sigs.k8s.io/replicatedjob-name") == ROLLOUTS)


def any_ready(pods: Iterable[Json]) -> bool:
    """Return True if one of the pods serves."""
    conditions = [item for pod in pods for item in (pod.get("status") or {}).get("conditions") or []]
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _vllm_arguments(options: RolloutServer) -> list[str]:
    length = options.max_model_length
    return [
        *("--port", str(PORT)),
        *("--tensor-parallel-size", str(options.accelerators)),
        *("--gpu-memory-utilization", str(options.gpu_memory)),
        *(("--max-model-len", str(length)) if length else ()),
        # TRL sends images apart from token ids, to endpoints that vLLM 0.30 and newer serve only when asked.
        "--enable-scale-out",
        *("--weight-transfer-config", '{"backend": "nccl"}'),
        # TRL requires log probabilities as sampled, for any number of tokens.
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
    ]
