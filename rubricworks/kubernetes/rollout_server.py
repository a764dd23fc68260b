"""vLLM server that generates a training's rollouts: a Job of one pod and a Service, deleted with the TrainJob.

It starts from the training's initial model and receives the weights of every step over NCCL: the first training process
opens the group, and the server's workers join it (TRL's `vllm_mode: server`).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rubricworks.errors import TransientError, UserError
from rubricworks.kubernetes.config import PodPlan, RolloutServer, TrainJobPlan
from rubricworks.kubernetes.connection import Cluster, Json, report_api_errors
from rubricworks.kubernetes.indexed_job import JOBS
from rubricworks.kubernetes.pods import PODS, pod_labels, pod_template, pod_trouble, refusal, root_trouble
from rubricworks.kubernetes.train_job import find_condition
from rubricworks.kubernetes.work import StageWork, log_line

SERVICES = "/api/v1/namespaces/{namespace}/services"
PORT = 8000
URL_ENV = "RUBRICWORKS_VLLM_URL"
"""Environment variable with the server's URL; it overrides the stage's configuration."""


@contextmanager
def rollout_server(
    cluster: Cluster,
    plan: TrainJobPlan,
    work: StageWork,
    *,
    poll: float = 5.0,
    report: Callable[[str], None] = log_line,
) -> Iterator["Server"]:
    """Context manager: start the server, yield it when it is ready, and delete it at the end.

    Raises:
        UserError: the server did not become ready; the message says why.
    """
    server = Server(cluster, work, plan.rollouts or plan.pod, plan.job.rollouts or RolloutServer())
    server.start()
    try:
        server.wait(poll, report)
        yield server
    finally:
        with suppress(UserError):
            server.delete()


class Server:
    """The server's Job and Service."""

    def __init__(self, cluster: Cluster, work: StageWork, plan: PodPlan, options: RolloutServer) -> None:
        self._cluster, self._work, self._plan, self._options = cluster, work, plan, options
        self.name = f"{work.name}-vllm"
        self._labels = {**work.labels, "rubricworks/role": "rollouts"}

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for every training process."""
        return {URL_ENV: f"http://{self.name}:{PORT}"}

    def start(self) -> None:
        """Create the Job and the Service; a server that an earlier pod of the stage left running is used as it is."""
        with report_api_errors("start the vLLM server", self._cluster.namespace):
            self._cluster.create(SERVICES, self.service())
            self._cluster.create(JOBS, self.job())

    def service(self) -> Json:
        """Build a headless Service: the name resolves to the pod itself, even before it is ready."""
        ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": self.name, "labels": self._labels},
            "spec": {"clusterIP": "None", "selector": self._labels, "ports": ports, "publishNotReadyAddresses": True},
        }

    def job(self) -> Json:
        command = [
            "python",
            "-m",
            "rubricworks.runtime.pods.rollout_server",
            "--model",
            self._work.inputs["model"],
            "--",
            *self._vllm_arguments(),
        ]
        accelerators = {"accelerators": self._options.accelerators} if self._plan.accelerator else {}
        plan = self._plan.model_copy(update=accelerators)
        # TRL updates the weights through vLLM's development endpoints.
        template = pod_template(plan, self._labels, command, {"VLLM_SERVER_DEV_MODE": "1"})
        health = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 5, "failureThreshold": 3}
        template["spec"]["containers"][0] |= {"readinessProbe": health, "ports": [{"containerPort": PORT}]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "labels": {**self._plan.labels, **pod_labels(plan, self._labels)}},
            "spec": {"backoffLimit": 6, "ttlSecondsAfterFinished": 3600, "template": template},
        }

    def _vllm_arguments(self) -> list[str]:
        length = self._options.max_model_length
        return [
            *("--port", str(PORT)),
            *("--tensor-parallel-size", str(self._options.accelerators)),
            *("--gpu-memory-utilization", str(self._options.gpu_memory)),
            *(("--max-model-len", str(length)) if length else ()),
            # TRL sends images apart from token ids, to endpoints that vLLM 0.30 and newer serve only when asked.
            "--enable-scale-out",
            *("--weight-transfer-config", '{"backend": "nccl"}'),
            # TRL requires log probabilities as sampled, for any number of tokens.
            *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        ]

    def wait(self, poll: float, report: Callable[[str], None]) -> None:
        """Wait until the server is ready.

        Raises:
            UserError: it failed, or was not ready in time.
        """
        deadline = time.monotonic() + self._options.start_within
        reported = set[str]()
        while True:
            with report_api_errors("look at the vLLM server", self._cluster.namespace):
                job = self._cluster.get(f"{JOBS}/{self.name}")
                pods = self._cluster.list(PODS, **{"batch.kubernetes.io/job-name": self.name})
                created = str(job["metadata"].get("creationTimestamp") or "")
                refused = None if pods else refusal(self._cluster, [self.name], created)
            if any(_is_ready(pod) for pod in pods):
                report("the vLLM server is ready")
                return
            trouble = refused or root_trouble(filter(None, map(pod_trouble, pods)))
            reason = f": {trouble.message}" if trouble else ""
            if failed := find_condition(job, "Failed"):
                raise TransientError(f"the vLLM server failed{reason or ': ' + failed.get('message', '')}")
            if time.monotonic() >= deadline:
                raise UserError(
                    f"the vLLM server was not ready within {self._options.start_within:.0f} seconds{reason}; "
                    "see its log, or allow more (train_job.rollouts.start_within)"
                )
            if (state := refused.message if refused else "waiting for it to load the model") not in reported:
                reported.add(state)
                report(f"the vLLM server: {state}")
            time.sleep(poll)

    def set_owner(self, train_job: Json) -> None:
        """Make the TrainJob own the server, so that the cluster deletes both even if this pod is lost."""
        owner = {
            "apiVersion": train_job["apiVersion"],
            "kind": train_job["kind"],
            "name": train_job["metadata"]["name"],
        }
        owner["uid"] = train_job["metadata"]["uid"]
        with report_api_errors("hand the vLLM server over", self._cluster.namespace):
            for path in (f"{JOBS}/{self.name}", f"{SERVICES}/{self.name}"):
                self._cluster.patch(path, {"metadata": {"ownerReferences": [owner]}})

    def delete(self) -> None:
        with report_api_errors("delete the vLLM server", self._cluster.namespace):
            for path in (f"{JOBS}/{self.name}", f"{SERVICES}/{self.name}"):
                self._cluster.delete(path)


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
