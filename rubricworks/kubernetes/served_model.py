"""Model that a run serves on a cluster: a Deployment and a Service for each replica, or an InferenceService of KServe.

The run's workflow owns them, so that the cluster deletes them with it. The stages that call a model find it by name:
the first creates it, the last deletes it, and the exit task of the run deletes what is left. Each replica has an
address of its own, so that a request goes to the one with the fewest in flight.
"""

import hashlib
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from rubricworks.errors import TransientError, UserError
from rubricworks.kubernetes.config import ServePlan
from rubricworks.kubernetes.connection import Cluster, Json, report_api_errors
from rubricworks.kubernetes.pods import PODS, Trouble, pod_labels, pod_template, pod_trouble, root_trouble
from rubricworks.kubernetes.train_job import find_condition
from rubricworks.kubernetes.work import log_line
from rubricworks.llm.served import ServedModel

DEPLOYMENTS = "/apis/apps/v1/namespaces/{namespace}/deployments"
INFERENCE_SERVICES = "/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices"
SERVICES = "/api/v1/namespaces/{namespace}/services"
PORT = 8000
RUN_LABEL = "rubricworks/run"
OBJECT_LABEL = "rubricworks/served"
_WORKFLOW = "Workflow"
_PROBE_S = 10
_MAX_CRASHES = 3
"""Restarts of a server that was never ready before it counts as broken."""
_DEFINITION_MISSING = 404


class Request(NamedTuple):
    """Model that a stage asks for."""

    run: str
    """URI of the run."""
    served: ServedModel
    identity: str
    weights: str
    """Folder or URI of the weights, or `org/name@COMMIT`."""
    options: tuple[str, ...]
    """Options of vLLM."""

    @property
    def key(self) -> str:
        """Digest that another model, or another run, does not share."""
        text = "\0".join((self.run, self.served.name, self.identity, *self.options))
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def run_label(run: str) -> str:
    """Value of the label that all objects of a run have."""
    return hashlib.sha256(run.encode()).hexdigest()[:16]


def serve(
    cluster: Cluster, plan: ServePlan, request: Request, *, poll: float = 5.0, report: Callable[[str], None] = log_line
) -> list[str]:
    """Start a model unless it runs already, wait until it is ready, and return the address of each replica.

    Raises:
        UserError: it did not become ready; the message says why, and its objects are deleted.
    """
    objects = _KServe(cluster, plan, request) if plan.kserve else _Deployments(cluster, plan, request)
    try:
        with report_api_errors(f"serve {request.served.name}", cluster.namespace):
            objects.create()
        objects.wait(poll, report)
    except UserError:
        with suppress(UserError):  # the first error says more
            delete(cluster, request.run, kserve=plan.kserve, key=request.key)
        raise
    return objects.urls()


def delete(cluster: Cluster, run: str, *, kserve: bool, key: str = "") -> int:
    """Delete a run's served models, or the one of a key; return the number of objects."""
    kind = INFERENCE_SERVICES if kserve else DEPLOYMENTS
    count = 0
    with report_api_errors("stop served models", cluster.namespace):
        for served in cluster.list(kind, **{RUN_LABEL: run_label(run)}):
            name = served["metadata"]["name"]
            if key in name:
                cluster.delete(f"{kind}/{name}")  # and the Service that it owns
                count += 1
    return count


class _Objects:
    def __init__(self, cluster: Cluster, plan: ServePlan, request: Request) -> None:
        self._cluster, self._request, served = cluster, request, request.served
        pod = plan.pods[served.name]
        size = {"accelerators": served.accelerators, "accelerator": pod.accelerator if served.accelerators else None}
        self._pod = pod.model_copy(update=size | ({"image": served.image} if served.command else {}))
        self._base = f"serve-{request.served.name[:30].strip('-')}-{request.key}"

    def labels(self, name: str) -> dict[str, str]:
        return {
            "app.kubernetes.io/part-of": "rubricworks",
            RUN_LABEL: run_label(self._request.run),
            OBJECT_LABEL: name,
        }

    def template(self, name: str) -> Json:
        """Template of a server's pod."""
        served = self._request.served
        command = ["python", "-m", "rubricworks.runtime.pods.rollout_server", "--weights", self._request.weights, "--"]
        shards = ["--tensor-parallel-size", str(served.accelerators)] if served.accelerators > 1 else []
        command += ["--served-model-name", served.name, "--port", str(PORT), *shards, *self._request.options]
        probe: Json = {"httpGet": {"path": "/health", "port": PORT}}
        if served.command:  # which need not know a path
            command, probe = served.command_words("0.0.0.0", PORT), {"tcpSocket": {"port": PORT}}
        template = pod_template(self._pod, self.labels(name), command)
        health = {**probe, "periodSeconds": _PROBE_S, "timeoutSeconds": _PROBE_S}
        template["spec"]["containers"][0] |= {
            "ports": [{"containerPort": PORT}],
            "startupProbe": {**health, "failureThreshold": max(1, int(served.start_within / _PROBE_S))},
            "readinessProbe": {**health, "failureThreshold": 1},
            "livenessProbe": {**health, "failureThreshold": 6},
        }
        template["spec"]["restartPolicy"] = "Always"
        return template

    def metadata(self, name: str) -> Json:
        labels = {**self._pod.labels, **pod_labels(self._pod, self.labels(name))}
        owners = _owners(self._cluster)
        return {"name": name, "labels": labels} | ({"ownerReferences": owners} if owners else {})

    def wait(self, poll: float, report: Callable[[str], None]) -> None:
        """Wait until all replicas are ready.

        Raises:
            UserError: one failed, or was not ready in time.
        """
        served = self._request.served
        deadline, reported = time.monotonic() + served.start_within, set[str]()
        while True:
            with report_api_errors(f"look at {served.name}", self._cluster.namespace):
                waiting, trouble = self.state()
            if not waiting:
                report(f"{served.name}: ready at {', '.join(self.urls())}")
                return
            if trouble is not None and trouble.kind == "failed":
                raise trouble.to_error(f"{served.name} does not start: {trouble.message}")
            reason = f": {trouble.message}" if trouble else ""
            if time.monotonic() >= deadline:
                raise TransientError(
                    f"{served.name} was not ready within {served.start_within:g} seconds{reason}; see its pod's log, "
                    f"or allow more (serve.{served.name}.start_within)"
                )
            if (state := trouble.message if trouble else "waiting for it to load its weights") not in reported:
                reported.add(state)
                report(f"{served.name}: {state}")
            time.sleep(poll)

    def pods_trouble(self, names: Sequence[str]) -> Trouble | None:
        """Trouble of the pods; a crash counts as failed only when it repeats, or when another try would not help."""
        troubles = []
        for name in names:
            for pod in self._cluster.list(PODS, **{OBJECT_LABEL: name}):
                trouble = pod_trouble(pod)
                if trouble is None:
                    continue
                statuses = (pod.get("status") or {}).get("containerStatuses") or []
                crashes = max((status.get("restartCount", 0) for status in statuses), default=0)
                if trouble.kind == "failed" and trouble.exit_code != 2 and crashes < _MAX_CRASHES:
                    trouble = trouble._replace(kind="cannot start")
                troubles.append(trouble)
        return root_trouble(troubles)

    def create(self) -> None:
        raise NotImplementedError

    def state(self) -> tuple[bool, Trouble | None]:
        """Return True while a replica is not ready, and the trouble that keeps it."""
        raise NotImplementedError

    def urls(self) -> list[str]:
        raise NotImplementedError


class _Deployments(_Objects):
    @property
    def _names(self) -> list[str]:
        return [f"{self._base}-{number}" for number in range(1, self._request.served.replicas + 1)]

    def create(self) -> None:
        for name in self._names:
            made = self._cluster.create(DEPLOYMENTS, self.deployment(name))
            made = made or self._cluster.get(f"{DEPLOYMENTS}/{name}")
            self._cluster.create(SERVICES, self.service(name, made))

    def deployment(self, name: str) -> Json:
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": {OBJECT_LABEL: name}},
            "strategy": {"type": "Recreate"},  # there is no accelerator for a second pod
            "template": self.template(name),
        }
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self.metadata(name), "spec": spec}

    def service(self, name: str, deployment: Json) -> Json:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": deployment["metadata"]["uid"]}
        ports = [{"name": "http", "port": PORT, "targetPort": PORT}]
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "labels": self.labels(name), "ownerReferences": [owner]},
            "spec": {"selector": {OBJECT_LABEL: name}, "ports": ports},
        }

    def state(self) -> tuple[bool, Trouble | None]:
        waiting, refused = [], None
        for name in self._names:
            deployment = self._cluster.get(f"{DEPLOYMENTS}/{name}")
            if not (deployment.get("status") or {}).get("availableReplicas"):
                waiting.append(name)
                if failure := find_condition(deployment, "ReplicaFailure"):
                    message = failure.get("message", "").partition(" is forbidden: ")[2] or failure.get("message", "")
                    refused = Trouble("no room", f"pods are refused: {message}")
        return bool(waiting), refused or self.pods_trouble(waiting)

    def urls(self) -> list[str]:
        return [f"http://{name}.{self._cluster.namespace}:{PORT}" for name in self._names]


class _KServe(_Objects):
    """InferenceService with the same pod; KServe balances the load of its replicas."""

    def create(self) -> None:
        from kubernetes.client import ApiException

        try:
            self._cluster.create(INFERENCE_SERVICES, self.inference_service())
        except ApiException as error:
            if error.status == _DEFINITION_MISSING:
                raise UserError(
                    f"{self._request.served.name}: the cluster has no InferenceService; install KServe, or leave out "
                    "cluster.kserve"
                ) from None
            raise

    def inference_service(self) -> Json:
        pod, count = self.template(self._base)["spec"], self._request.served.replicas
        [container] = pod.pop("containers")
        container["name"] = "kserve-container"
        del pod["restartPolicy"]
        predictor = {"minReplicas": count, "maxReplicas": count, "containers": [container], **pod}
        metadata = self.metadata(self._base)
        metadata["annotations"] = {"serving.kserve.io/deploymentMode": "RawDeployment"}
        return {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": metadata,
            "spec": {"predictor": predictor},
        }

    def _service(self) -> Json:
        return self._cluster.get(f"{INFERENCE_SERVICES}/{self._base}")

    def state(self) -> tuple[bool, Trouble | None]:
        if find_condition(self._service(), "Ready"):
            return False, None
        return True, self.pods_trouble([self._base])

    def urls(self) -> list[str]:
        status = self._service().get("status") or {}
        url = (status.get("address") or {}).get("url") or status.get("url")
        if not url:
            raise TransientError(f"{self._request.served.name}: KServe gives no address; see kubectl describe isvc")
        return [str(url)] * self._request.served.replicas


def _owners(cluster: Cluster) -> list[Json]:
    """Reference to the workflow of this pod, or to the pod itself; none outside of a cluster."""
    from kubernetes.client import ApiException

    try:
        pod = cluster.get(f"{PODS}/{socket.gethostname()}")
    except ApiException:
        return []
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences") or []:
        if owner["kind"] == _WORKFLOW:
            return [{field: owner[field] for field in ("apiVersion", "kind", "name", "uid")}]
    return [{"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}]
