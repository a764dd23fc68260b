"""A small Kubernetes API over HTTP: keeps what it is given, and plays the controllers as a test tells it to.

Objects are JSON under their paths; labels select; logs are streamed while their pod runs. TrainJobs and Jobs are held
to what `kubeflow-trainer-api` and the Kubernetes schemas know, so a field that a server would drop fails the test.
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import yaml

NAMESPACE = "team"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
TRAIN_JOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"
Json = dict[str, Any]


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
        """Status and message of a request that is to fail."""
        self.on_create: Callable[[str, Json], None] = lambda path, item: None
        """Plays the controllers: called with the path and the object of whatever is created, in a thread."""
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

    def say(self, pod: str, *lines: str) -> None:
        for line in lines:
            self.logs[pod].append(f"2026-01-01T00:00:00.{len(self.logs[pod]):09d}Z {line}")

    def create(self, path: str, item: Json) -> tuple[int, Json]:
        name = item["metadata"]["name"]
        problem = _problem(path, item)
        if problem:
            return 422, {"message": problem}
        with self.lock:
            if f"{path}/{name}" in self.objects:
                return 409, {"message": f'"{name}" already exists'}
            item["metadata"] |= {"uid": f"uid-{len(self.asked)}", "namespace": NAMESPACE}
            self.objects[f"{path}/{name}"] = item
        threading.Thread(target=self.on_create, args=(f"{path}/{name}", item), daemon=True).start()
        return 201, item

    def delete(self, path: str) -> tuple[int, Json]:
        with self.lock:
            if self.objects.pop(path, None) is None:
                return 404, {"message": "not found"}
            self.deleted.append(path)
        return 200, {"status": "Success"}

    def list(self, path: str, selector: str) -> Json:
        labels = dict(part.split("=") for part in selector.split(",") if part)
        return {"items": [item for item in self.of(path) if labels.items() <= item["metadata"]["labels"].items()]}


def ended(code: int, message: str = "", reason: str = "Error", name: str = "node") -> list[Json]:
    """`containerStatuses` of a pod whose container ended."""
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": f"{time.time()}"}}
    return [{"name": name, "state": state}]


def _problem(path: str, item: Json) -> str | None:
    if path == TRAIN_JOBS:
        from kubeflow_trainer_api import models  # half a second

        typed = models.TrainerV1alpha1TrainJob.from_dict(item).to_dict()
        return None if typed == item else "the TrainJob has fields that Kubeflow Trainer does not know"
    if path == JOBS:
        try:
            kubernetes_validate.validate(item, "1.31", strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"the Job is none: {error}"
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
                return self._answer(refused[0], {"message": refused[1]})
            if url.path.endswith("/log"):
                return self._log(url.path.split("/")[-2], query.get("sinceTime", ""))
            return self._answer(*self._do(url.path, query, body))

        def _do(self, path: str, query: dict[str, str], body: Any) -> tuple[int, Json]:
            if self.command == "POST":
                return api.create(path, body)
            if self.command == "DELETE":
                return api.delete(path)
            with api.lock:
                if self.command == "GET" and path in (PODS, JOBS, SERVICES, TRAIN_JOBS):
                    return 200, api.list(path, query.get("labelSelector", ""))
                if path not in api.objects:
                    return 404, {"message": "not found"}
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
