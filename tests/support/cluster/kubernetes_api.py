"""A small Kubernetes API over HTTP: keeps what it is given, and plays the controllers as a test tells it to.

Objects are JSON under their paths; labels and fields select; logs are streamed while their pod runs. TrainJobs and Jobs
are held to what `kubeflow-trainer-api` and the Kubernetes schemas know, so a field that a server would drop fails the
test. Refusals are Status objects with the reasons and messages of a real server (1.36). `JobController` plays the
controller of Indexed Jobs.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import yaml

NAMESPACE = "team"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
INFERENCE_SERVICES = f"/apis/serving.kserve.io/v1beta1/namespaces/{NAMESPACE}/inferenceservices"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
RUNTIMES = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainingruntimes"
TRAIN_JOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"
Json = dict[str, Any]
REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 422: "Invalid"}
QUOTA = "exceeded quota: compute, requested: requests.cpu=4, used: requests.cpu=6, limited: requests.cpu=8"
NO_ACCOUNT = 'error looking up service account team/workers: serviceaccount "workers" not found'
CONFLICT = (
    'Operation cannot be fulfilled on resourcequotas "compute": the object has been modified; please apply your '
    "changes to the latest version and try again"
)


class KubernetesApi:
    """Close it, or use it as a context manager."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.logs: dict[str, list[str]] = {}
        """Lines by pod."""
        self.asked: list[tuple[str, str]] = []
        """Method and path of each request."""
        self.deleted: list[str] = []
        self.refuse: Callable[[str, str], tuple[int, str] | None] = lambda method, path: None
        """HTTP status and message of a request that is to fail."""
        self.on_create: Callable[[str, Json], None] = lambda path, item: None
        """Plays the controllers: called with the path and the object of whatever is created, in a thread."""
        self.version = "v1.36.0"
        self.cut_logs = 0
        """Log streams that break after a line."""
        self.lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> "KubernetesApi":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, folder: Path) -> Path:
        server = f"http://127.0.0.1:{self._server.server_address[1]}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": server}}],
            "users": [{"name": "me", "user": {"token": "t0ken"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": NAMESPACE}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def of(self, kind: str) -> list[Json]:
        """Objects of a kind, by the kind's path."""
        with self.lock:
            return [item for path, item in self.objects.items() if path.rpartition("/")[0] == kind]

    def status(self, path: str, **status: Any) -> None:
        with self.lock:
            if path in self.objects:
                self.objects[path].setdefault("status", {}).update(status)

    def condition(self, path: str, kind: str, reason: str = "Because", message: str = "") -> None:
        fields = {"type": kind, "status": "True", "reason": reason, "message": message}
        self.status(path, conditions=[fields])

    def pod(self, name: str, labels: dict[str, str], phase: str = "Running", **status: Any) -> None:
        with self.lock:
            metadata = {"name": name, "labels": labels}
            self.objects[f"{PODS}/{name}"] = {"metadata": metadata, "status": {"phase": phase, **status}}
            self.logs.setdefault(name, [])

    def refused_pod(self, kind: str, name: str, reason: str) -> None:
        """Event of a controller whose pod the API refuses, on the object that owns it."""
        number = len(self.asked)
        message = f'Error creating: pods "{name}-0-{number:05x}" is forbidden: {reason}'
        event = {"reason": "FailedCreate", "type": "Warning", "message": message, "lastTimestamp": now()}
        event |= {"involvedObject": {"kind": kind, "name": name, "namespace": NAMESPACE}}
        with self.lock:
            self.objects[f"{EVENTS}/{name}.{number}"] = {"metadata": {"name": f"{name}.{number}"}, **event}

    def say(self, pod: str, *lines: str) -> None:
        for line in lines:
            self.logs[pod].append(f"2026-01-01T00:00:00.{len(self.logs[pod]):09d}Z {line}")

    def create(self, path: str, item: Json) -> tuple[int, Json]:
        name = item["metadata"]["name"]
        problem = _problem(path, item)
        if problem:
            return 422, failure(422, problem)
        with self.lock:
            if f"{path}/{name}" in self.objects:
                return 409, failure(409, f'{path.rpartition("/")[2]} "{name}" already exists', "AlreadyExists")
            made = {"uid": f"uid-{len(self.asked)}", "namespace": NAMESPACE, "creationTimestamp": now()}
            item["metadata"] |= made
            self.objects[f"{path}/{name}"] = item
        threading.Thread(target=self.on_create, args=(f"{path}/{name}", item), daemon=True).start()
        return 201, item

    def delete(self, path: str) -> tuple[int, Json]:
        with self.lock:
            if (item := self.objects.pop(path, None)) is None:
                return 404, failure(404, "not found")
            self.deleted.append(path)
            uid = item["metadata"].get("uid")
            for owned, other in list(self.objects.items()):  # the garbage collector
                owners = other["metadata"].get("ownerReferences") or []
                if uid and any(owner["uid"] == uid for owner in owners):
                    self.delete(owned)
        return 200, {"status": "Success"}

    def list(self, path: str, selector: str, fields: str = "") -> Json:
        labels, values = (dict(part.split("=") for part in text.split(",") if part) for text in (selector, fields))
        chosen = [item for item in self.of(path) if labels.items() <= item["metadata"].get("labels", {}).items()]
        return {"items": [item for item in chosen if all(_at(item, field) == values[field] for field in values)]}


_KINDS = (PODS, JOBS, DEPLOYMENTS, INFERENCE_SERVICES, SERVICES, RUNTIMES, TRAIN_JOBS, EVENTS)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def failure(code: int, message: str, reason: str = "") -> Json:
    """The object by which a server refuses a request."""
    reason = reason or REASONS.get(code, "")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def _at(item: Json, field: str) -> Any:
    for name in field.split("."):
        item = item[name]
    return item


Ended = tuple[str, Json]
"""Phase of a pod, and the rest of its status."""


class JobController:
    """Plays the controller of Indexed Jobs, as an `on_create`: pods, their events, the Job's status and conditions."""

    def __init__(
        self,
        api: KubernetesApi,
        run: Callable[[int, int], Ended],
        *,
        refuse_pod: Callable[[int], str | None] = lambda index: None,
    ) -> None:
        """
        Args:
            run: called with the index and the number of the attempt, from 0, for each pod that is created.
            refuse_pod: called with an index whose pod is about to be created; the reason for which the API refuses it.
        """
        self._api, self._run, self._refuse_pod = api, run, refuse_pod

    def __call__(self, path: str, job: Json) -> None:
        if not path.startswith(JOBS):
            return
        name, spec = job["metadata"]["name"], job["spec"]
        failures, attempts = Counter[int](), Counter[int]()
        active, done, failed = dict[int, str](), set[int](), set[int]()
        while path in self._api.objects:
            for index in range(spec["completions"]):
                if index in done | failed | active.keys() or len(active) >= spec["parallelism"]:
                    continue
                if reason := self._refuse_pod(index):
                    self._api.refused_pod("Job", name, reason)
                    break  # the next ones wait for its back-off
                active[index] = self._create(job, index, failures[index], attempts[index])
                attempts[index] += 1
            for index, pod in list(active.items()):
                state = self._api.objects[f"{PODS}/{pod}"]["status"]
                if state["phase"] == "Succeeded":
                    done.add(index)
                elif state["phase"] == "Failed":
                    if _code(state) == 2:
                        self._conclude(path, "PodFailurePolicy", "Container main failed with exit code 2")
                        return
                    failures[index] += not any(
                        item["type"] == "DisruptionTarget" for item in state.get("conditions", [])
                    )
                    if failures[index] > spec["backoffLimitPerIndex"]:
                        failed.add(index)
                if state["phase"] in ("Succeeded", "Failed"):
                    del active[index]
            indexes = {"completedIndexes": _ranges(done)} | ({"failedIndexes": _ranges(failed)} if failed else {})
            ready = sum(self._api.objects[f"{PODS}/{pod}"]["status"]["phase"] == "Running" for pod in active.values())
            self._api.status(path, active=len(active), ready=ready, succeeded=len(done), **indexes)
            if len(done | failed) == spec["completions"]:
                if failed:
                    self._conclude(path, "FailedIndexes", "Job has failed indexes")
                else:
                    self._api.condition(path, "Complete")
                return
            time.sleep(0.01)

    def _create(self, job: Json, index: int, failures: int, attempt: int) -> str:
        name, template = job["metadata"]["name"], job["spec"]["template"]["metadata"]
        pod = f"{name}-{index}-{attempt:05x}"
        own = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/job-completion-index": str(index)}
        phase, state = self._run(index, attempt)
        self._api.pod(pod, {**template["labels"], **own}, phase, **state)
        self._api.objects[f"{PODS}/{pod}"]["metadata"] |= {
            "annotations": {"batch.kubernetes.io/job-index-failure-count": str(failures)},
            "creationTimestamp": now(),
        }
        return pod

    def _conclude(self, path: str, reason: str, message: str) -> None:
        """First the pods are ended, then the Job has failed."""
        self._api.condition(path, "FailureTarget", reason, message)
        time.sleep(0.1)
        fields = {"status": "True", "reason": reason, "message": message}
        self._api.status(path, conditions=[{"type": kind, **fields} for kind in ("FailureTarget", "Failed")])


def _code(state: Json) -> int:
    return next((item["state"]["terminated"]["exitCode"] for item in state.get("containerStatuses", [])), 0)


def _ranges(indexes: set[int]) -> str:
    """Indexes as the status of a Job has them: 0,2-4."""
    starts = [index for index in sorted(indexes) if index - 1 not in indexes]
    ends = [index for index in sorted(indexes) if index + 1 not in indexes]
    return ",".join(f"{start}-{end}" if end > start else str(start) for start, end in zip(starts, ends, strict=True))


def ended(code: int, message: str = "", reason: str = "Error", name: str = "node") -> list[Json]:
    """`containerStatuses` of a pod whose container ended."""
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": f"{time.time()}"}}
    return [{"name": name, "state": state}]


def _problem(path: str, item: Json) -> str | None:
    if path in (TRAIN_JOBS, RUNTIMES):
        from kubeflow_trainer_api import models  # half a second

        kinds = {TRAIN_JOBS: models.TrainerV1alpha1TrainJob, RUNTIMES: models.TrainerV1alpha1TrainingRuntime}
        if kinds[path].from_dict(item).to_dict() != item:
            return f"the {item['kind']} has fields that Kubeflow Trainer does not know"
    if path in (JOBS, DEPLOYMENTS, SERVICES):
        try:
            kubernetes_validate.validate(item, "1.31", strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"the {item['kind']} is none: {error}"
    return None


def _handler(api: KubernetesApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def _go(self) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            api.asked.append((self.command, url.path))
            assert self.headers["Authorization"] == "Bearer t0ken"
            if refused := api.refuse(self.command, url.path):
                return self._answer(refused[0], failure(*refused))
            if url.path.endswith("/log"):
                return self._log(url.path.split("/")[-2], query.get("sinceTime", ""))
            return self._answer(*self._do(url.path, query, body))

        def _do(self, path: str, query: dict[str, str], body: Any) -> tuple[int, Json]:
            if path == "/version":
                return 200, {"gitVersion": api.version}
            if self.command == "POST":
                return api.create(path, body)
            if self.command == "DELETE":
                return api.delete(path)
            with api.lock:
                if self.command == "GET" and path in _KINDS:
                    return 200, api.list(path, query.get("labelSelector", ""), query.get("fieldSelector", ""))
                if path not in api.objects:
                    return 404, failure(404, "not found")
                if self.command == "PATCH":
                    for key, value in body["metadata"].items():
                        api.objects[path]["metadata"][key] = value
                return 200, api.objects[path]

        def _log(self, pod: str, since: str) -> None:
            """Streamed while the pod runs, from a second on."""
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            offset = 0
            while True:
                with api.lock:
                    lines = [line for line in api.logs.get(pod, []) if line[:19] >= since[:19]]
                    item = api.objects.get(f"{PODS}/{pod}")
                for line in lines[offset:]:
                    self.wfile.write(f"{len(line) + 1:x}\r\n{line}\n\r\n".encode())
                    offset += 1
                    if api.cut_logs:
                        api.cut_logs -= 1
                        self.close_connection = True
                        return
                if item is None or item["status"]["phase"] in ("Succeeded", "Failed"):
                    self.wfile.write(b"0\r\n\r\n")
                    return
                self.wfile.flush()
                time.sleep(0.02)

        def _answer(self, status: int, body: Json) -> None:
            with api.lock:
                content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = do_PATCH = _go

    return Handler
