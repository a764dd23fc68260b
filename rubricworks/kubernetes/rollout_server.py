"""A vLLM server beside a training that writes its rollouts: one pod and a name for it, deleted with the TrainJob.

It starts from the model that training starts from, and gets the weights of every step over NCCL: the first process
opens the group, and the server's workers join it (TRL's `vllm_mode: server`).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rubricworks.errors import UserError
from rubricworks.kubernetes.config import PodPlan, RolloutServer, TrainJobPlan
from rubricworks.kubernetes.connection import Cluster, Json, telling
from rubricworks.kubernetes.indexed_job import JOBS
from rubricworks.kubernetes.pods import PODS, pod_labels, pod_template, trouble_of, worst
from rubricworks.kubernetes.train_job import condition
from rubricworks.kubernetes.work import StageWork, say

SERVICES = "/api/v1/namespaces/{namespace}/services"
PORT = 8000
WEIGHTS_PORT = 51216
"""Where the first process of the training waits for the server's workers."""
URL = "RUBRICWORKS_VLLM_URL"
"""Tells the training where its server is, whatever the stage's configuration says."""


@contextmanager
def rollout_server(
    cluster: Cluster, plan: TrainJobPlan, work: StageWork, *, poll: float = 5.0, tell: Callable[[str], None] = say
) -> Iterator["Server"]:
    """Its server, ready, until the block ends.

    Raises:
        UserError: the server did not come up; the message says why.
    """
    server = Server(cluster, work, plan.rollouts or plan.pod, plan.job.rollouts or RolloutServer())
    server.start()
    try:
        server.wait(poll, tell)
        yield server
    finally:
        with suppress(UserError):
            server.delete()


class Server:
    def __init__(self, cluster: Cluster, work: StageWork, plan: PodPlan, options: RolloutServer) -> None:
        self._cluster, self._work, self._plan, self._options = cluster, work, plan, options
        self.name = f"{work.name}-vllm"
        self._labels = {**work.labels, "rubricworks/role": "rollouts"}

    @property
    def environment(self) -> dict[str, str]:
        """For every process of the training."""
        return {URL: f"http://{self.name}:{PORT}"}

    def start(self) -> None:
        """One that an earlier pod of the stage left running is taken up, with the weights that it has."""
        with telling("start the vLLM server", self._cluster.namespace):
            self._cluster.create(SERVICES, self.service())
            self._cluster.create(JOBS, self.job())

    def service(self) -> Json:
        """Headless: the name leads to the pod itself, also before it is ready."""
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
        # TRL reaches the weights through vLLM's development endpoints.
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
            *("--host", "0.0.0.0", "--port", str(PORT)),
            *("--tensor-parallel-size", str(self._options.accelerators)),
            *("--gpu-memory-utilization", str(self._options.gpu_memory)),
            *(("--max-model-len", str(length)) if length else ()),
            *("--weight-transfer-config", '{"backend": "nccl"}'),
            # What TRL asks of a server: probabilities as sampled, of as many tokens as it wants.
            *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        ]

    def wait(self, poll: float, tell: Callable[[str], None]) -> None:
        """Until it answers."""
        until = time.monotonic() + self._options.start_within
        told = False
        while True:
            with telling("look at the vLLM server", self._cluster.namespace):
                job = self._cluster.get(f"{JOBS}/{self.name}")
                pods = self._cluster.list(PODS, **{"batch.kubernetes.io/job-name": self.name})
            if any(_is_ready(pod) for pod in pods):
                tell("the vLLM server is ready")
                return
            trouble = worst(found for pod in pods if (found := trouble_of(pod)))
            why = f": {trouble.message}" if trouble else ""
            if failed := condition(job, "Failed"):
                raise UserError(f"the vLLM server failed{why or ': ' + failed.get('message', '')}")
            if time.monotonic() >= until:
                raise UserError(
                    f"the vLLM server was not ready within {self._options.start_within:.0f} seconds{why}; see its log, "
                    "or allow more (train_job.rollouts.start_within)"
                )
            if not told:
                told = True
                tell("waiting for the vLLM server to load the model")
            time.sleep(poll)

    def belongs_to(self, train_job: Json) -> None:
        """Let the cluster delete the server with the training, should this pod be lost."""
        owner = {
            "apiVersion": train_job["apiVersion"],
            "kind": train_job["kind"],
            "name": train_job["metadata"]["name"],
        }
        owner["uid"] = train_job["metadata"]["uid"]
        with telling("hand the vLLM server over", self._cluster.namespace):
            for path in (f"{JOBS}/{self.name}", f"{SERVICES}/{self.name}"):
                self._cluster.patch(path, {"metadata": {"ownerReferences": [owner]}})

    def delete(self) -> None:
        with telling("delete the vLLM server", self._cluster.namespace):
            for path in (f"{JOBS}/{self.name}", f"{SERVICES}/{self.name}"):
                self._cluster.delete(path)


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
