"""A small Kubeflow Pipelines on loopback: it keeps what it is given, and answers as the API server of 2.17 does.

Nothing runs in it: a test says how its runs go on (`end`, `begin_of`). What it is asked is checked against the real
API's description by the tests that put prism in front of it.
"""

import base64
import email
import email.policy
import json
import re
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

LONG_AGO = "1970-01-01T00:00:00Z"
"""What the API server says of a time that it does not know."""

NEVER = "0001-01-01T00:00:00Z"
"""What the API server says of the time of a node that has not come to it: Go's zero."""
RUN_FIELDS = {
    *("run_id", "display_name", "created_at", "finished_at", "description", "scheduled_at", "storage_state"),
    *("namespace", "experiment_id", "state", "recurring_run_id", "pipeline_id"),
}
"""Fields that runs are filtered by, as `backend/src/apiserver/model/run.go` of kubeflow/pipelines lists them."""
PAGE_SIZES = (20, 200)
"""Default and largest size of a page, by `backend/src/apiserver/list/list.go`."""

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Refusal(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class FakeKubeflow:
    """Started by `with`; `url` is where it answers."""

    def __init__(self, *, token: str = "", multi_user: bool = False, version: str = "", port: int = 0) -> None:
        self.token = token
        self.health: dict[str, Any] = {"multi_user": multi_user, "pipeline_store": "database"}
        if version:  # as the pages in front of the API server tell it
            self.health |= {"apiServerTagName": version}
        self.kept: dict[str, dict[str, dict[str, Any]]] = {
            kind: {} for kind in ("experiments", "pipelines", "versions", "runs", "recurringruns")
        }
        self.asked: list[tuple[str, str, Any]] = []
        """Method, path and JSON of every request."""
        self.answer_instead: Callable[[str, str], tuple[int, str, bytes] | None] = lambda method, path: None
        """A test's own answer to a request: status, content type, body."""
        self._clock = datetime(2026, 3, 1, 12, tzinfo=UTC)
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one(self) -> None:
                status, kind, content = fake._answer(self.command, self.path, self.headers, self.body())
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                if 300 <= status < 400:
                    self.send_header("Location", "/dex/auth")
                self.end_headers()
                self.wfile.write(content)

            def body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            do_GET = do_POST = do_DELETE = handle_one

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "FakeKubeflow":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def only(self, kind: str) -> dict[str, Any]:
        (resource,) = self.kept[kind].values()
        return resource

    def end(
        self,
        run_id: str,
        state: str,
        tasks: dict[str, str] | None = None,
        *,
        attempts: int = 0,
        names_pods: bool = True,
    ) -> None:
        """Let a run come to an end; `tasks` are its stages and their states, in order.

        Its details are the nodes of Argo's workflow, as `NodeStatuses` of `backend/src/common/util/workflow.go` has
        them and `toApiPipelineTaskDetail` tells them: without parents and errors, and with nodes' ids as children.

        Args:
            attempts: pods of each task, below its executor; 0 if it is the pod.
            names_pods: a detail has the name of its pod, as RetrievePodName makes it.
        """
        run = self.kept["runs"][run_id]
        run |= {"state": state, "finished_at": self._now()}
        workflow, count, details = f"pipeline-{run_id[:5]}", 0, []

        def node(name: str, template: str, of_node: str, children: tuple[str, ...] = ()) -> str:
            nonlocal count
            count += 1
            began, ended = (NEVER, NEVER) if of_node == "PENDING" else (self._now(), self._now())
            detail = {"task_id": str(uuid.uuid4()), "run_id": run_id, "display_name": name, "state": of_node}
            detail |= {"create_time": began, "start_time": began, "end_time": NEVER if of_node == "RUNNING" else ended}
            detail |= {"child_tasks": [{"pod_name": child} for child in children], "execution_id": "0"}
            if names_pods:
                detail["pod_name"] = f"{workflow}-{template}-{1000 + count}" if template else workflow
            details.append(detail)
            return f"{workflow}-{1000 + count}"

        firsts = []
        for stage, of_task in (tasks or {}).items():
            inner: tuple[str, ...] = ()
            if of_task not in ("SKIPPED", "PENDING"):
                impl = "retry-system-container-impl" if attempts else "system-container-impl"
                each = tuple(node(f"executor({number})", impl, of_task) for number in range(attempts))
                inner = (node("executor", impl, of_task, each),)
            task = node(stage, "system-container-executor", of_task, inner)
            firsts.append(node(f"{stage}-driver", "system-container-driver", of_task, (task,)))
        group = node("exit-handler-1", "comp-exit-handler-1", state, tuple(firsts[:1]))
        of_group = node("exit-handler-1-driver", "system-dag-driver", state, (group,))
        root = node("root", "root", state, (of_group,))
        node(workflow, "", state, (node("root-driver", "system-dag-driver", state, (root,)),))
        run["run_details"] = {"task_details": details}

    def begin_of(self, schedule_id: str) -> dict[str, Any]:
        """A run that a schedule begins."""
        schedule = self.kept["recurringruns"][schedule_id]
        same = {name: schedule[name] for name in ("pipeline_version_reference", "runtime_config", "experiment_id")}
        return self._make_run(
            {"display_name": f"{schedule['display_name']}-1", **same, "recurring_run_id": schedule_id}
        )

    def _answer(self, method: str, target: str, headers: Message, body: bytes) -> tuple[int, str, bytes]:
        parts = urlsplit(target)
        content = json.loads(body) if body and "json" in headers.get("Content-Type", "") else None
        self.asked.append((method, target, content))
        if own := self.answer_instead(method, parts.path):
            return own
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        try:
            if beyond := next((sign for sign in f"{content}{unquote(target)}" if ord(sign) > 0xFFFF), ""):
                raise Refusal(500, 13, f"Error 1366 (HY000): Incorrect string value: {beyond.encode()!r} for column")
            if self.token and headers.get("Authorization") != f"Bearer {self.token}":
                raise Refusal(401, 16, "Request header error: there is no user identity header")
            answer = self._route(
                method, unquote(parts.path).removeprefix("/apis/v2beta1"), query, content, headers, body
            )
            return 200, "application/json", json.dumps(answer).encode()
        except Refusal as refused:
            error = {"error": str(refused), "code": refused.code, "message": str(refused), "details": []}
            return refused.status, "application/json", json.dumps(error).encode()

    def _route(self, method: str, path: str, query: dict[str, str], content: Any, headers: Message, body: bytes) -> Any:
        if path == "/healthz":
            return self.health
        if path == "/pipelines/upload_version":
            return self._take_version(query, headers, body)
        if match := re.fullmatch(r"/pipelines/([^/]+)/versions(?:/([^/]+))?", path):
            of_pipeline = [version for version in self.kept["versions"].values() if version["pipeline_id"] == match[1]]
            return self._one("versions", match[2]) if match[2] else self._page("pipeline_versions", of_pipeline, query)
        if not (match := re.fullmatch(r"/(\w+)(?:/([^/:]+)(?::(\w+))?)?", path)) or match[1] not in self.kept:
            raise Refusal(404, 5, f"Not Found: {path}")
        kind, key, action = match.groups()
        if key is None and method == "POST":
            return self._make(kind, content)
        if key is None:
            return self._page("recurringRuns" if kind == "recurringruns" else kind, self._of(kind, query), query)
        resource = self._one(kind, key)
        if method == "DELETE":
            del self.kept[kind][key]
            return {}
        return self._act(kind, resource, action) if action else resource

    def _make(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        if kind == "runs":
            return self._make_run(content)
        if kind == "pipelines" and any(resource["name"] == content["name"] for resource in self.kept[kind].values()):
            raise Refusal(409, 6, f"Failed to create a pipeline: Already exist error: {content['name']}")
        if kind == "recurringruns" and not 1 <= int(content["max_concurrency"]) <= 10:
            raise Refusal(400, 3, "max_concurrency is not between 1 and 10")
        key = str(uuid.uuid4())
        name = {"experiments": "experiment_id", "pipelines": "pipeline_id", "recurringruns": "recurring_run_id"}[kind]
        item = {**content, name: key, "created_at": self._now()}
        if kind == "recurringruns":
            status = "ENABLED" if content["mode"] == "ENABLE" else "DISABLED"
            item |= {"max_concurrency": str(content["max_concurrency"]), "status": status}
        self.kept[kind][key] = item
        return item

    def _make_run(self, content: dict[str, Any]) -> dict[str, Any]:
        version = content["pipeline_version_reference"]["pipeline_version_id"]
        spec = self._one("versions", version)["pipeline_spec"]["pipeline_spec"]
        parameters = set(spec["root"]["inputDefinitions"]["parameters"])
        arguments = set(content["runtime_config"]["parameters"])
        if parameters != arguments:
            raise Refusal(400, 3, f"Failed to create a new run: parameters differ: {sorted(parameters ^ arguments)}")
        key = str(uuid.uuid4())
        run = {**content, "run_id": key, "state": "PENDING", "storage_state": "AVAILABLE", "created_at": self._now()}
        self.kept["runs"][key] = run | {"finished_at": LONG_AGO, "scheduled_at": self._now()}
        return self.kept["runs"][key]

    def _act(self, kind: str, row: dict[str, Any], action: str) -> dict[str, Any]:
        if action in ("enable", "disable"):
            row["status"] = f"{action.upper()}D"
        elif action == "terminate":
            row["state"] = "CANCELING"
        elif action == "retry" and row["state"] in ("FAILED", "CANCELED"):
            row |= {"state": "RUNNING", "finished_at": LONG_AGO}
        elif action == "archive":
            row["storage_state"] = "ARCHIVED"
        else:
            raise Refusal(400, 3, f"Failed to {action} {kind}: Bad request: it is {row.get('state')}")
        return {}

    def _take_version(self, query: dict[str, str], headers: Message, body: bytes) -> dict[str, Any]:
        self._one("pipelines", query.get("pipelineid", ""))
        of_same = [
            version for version in self.kept["versions"].values() if version["pipeline_id"] == query["pipelineid"]
        ]
        if any(version["display_name"] == query["name"] for version in of_same):
            raise Refusal(409, 6, f"Failed to create a pipeline version: Already exist error: {query['name']}")
        whole = b"Content-Type: " + headers["Content-Type"].encode() + b"\r\n\r\n" + body
        (part,) = email.message_from_bytes(whole, policy=email.policy.HTTP).iter_parts()  # type: ignore[attr-defined]
        pipeline, platform = [*yaml.load_all(part.get_payload(decode=True), LOADER), {}][:2]
        if any(ord(sign) > 0xFFFF for sign in f"{pipeline}{platform}"):
            raise Refusal(500, 13, "Error 1366 (HY000): Incorrect string value for column 'PipelineSpec'")
        key = str(uuid.uuid4())
        self.kept["versions"][key] = {
            "pipeline_id": query["pipelineid"],
            "pipeline_version_id": key,
            "name": query["name"],
            "display_name": query["name"],
            "description": query.get("description", ""),
            "created_at": self._now(),
            "pipeline_spec": {"pipeline_spec": pipeline, "platform_spec": platform},
        }
        return self.kept["versions"][key]

    def _of(self, kind: str, query: dict[str, str]) -> list[dict[str, Any]]:
        if self.health["multi_user"] and kind != "pipelines" and not query.get("namespace"):
            raise Refusal(400, 3, "Invalid input error: A namespace is required in multi-user mode")
        namespace = query.get("namespace")
        if self.health["multi_user"] and namespace not in (None, "team"):
            raise Refusal(403, 7, f"User is not authorized to list {kind} in namespace {namespace}")
        return list(self.kept[kind].values())

    def _page(self, name: str, items: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
        asked = {"sort": query.get("sort_by", ""), "filter": query.get("filter", "")}
        begin = 0
        if token := query.get("page_token"):
            try:
                known = json.loads(base64.b64decode(token, validate=True))
            except ValueError:
                raise Refusal(400, 3, "Invalid input error: Invalid package token") from None
            # A list of values is of another type once the token is read again, so it never equals the one that came.
            is_same = {request: known[request] for request in asked} == asked and '"IN"' not in asked["filter"]
            if any(asked.values()) and not is_same:
                raise Refusal(
                    400, 3, "Invalid input error: page token does not match the supplied sort by and/or filter"
                )
            begin, asked = known["begin"], {request: known[request] for request in asked}
        for predicate in json.loads(asked["filter"] or "{}").get("predicates", []):
            if name == "runs" and predicate["key"] not in RUN_FIELDS:
                raise Refusal(
                    400, 3, f"Invalid input error: no support for filtering on unrecognized field {predicate['key']}"
                )
            items = [have for have in items if _holds(predicate, have)]
        if asked["sort"] == "created_at desc":
            items = sorted(items, key=lambda have: have["created_at"], reverse=True)
        size = min(int(query.get("page_size") or PAGE_SIZES[0]), PAGE_SIZES[1], self.page_size)
        page = {name: items[begin : begin + size], "total_size": len(items)} if items else {}
        if begin + size < len(items):
            token = base64.b64encode(json.dumps({**asked, "begin": begin + size}).encode()).decode()
            page["next_page_token"] = token
        return page

    page_size = 3
    """It gives no longer pages than this, so that tests see several."""

    def _one(self, kind: str, key: str) -> dict[str, Any]:
        if key not in self.kept[kind]:
            raise Refusal(404, 5, f"ResourceNotFoundError: {kind} {key} not found")
        return self.kept[kind][key]

    def _now(self) -> str:
        self._clock += timedelta(seconds=1)
        return self._clock.strftime("%Y-%m-%dT%H:%M:%SZ")


def _holds(predicate: dict[str, Any], item: dict[str, Any]) -> bool:
    """Return True if an item is as a predicate says; texts are compared in small letters, as the database does."""
    key = predicate["key"]
    value = item.get("pipeline_version_reference", item) if key == "pipeline_id" else item
    have = str(value.get(key)).lower()
    text = str(predicate.get("string_value", predicate.get("stringValue"))).lower()
    match predicate["operation"]:
        case "EQUALS" | 1:
            return have == text
        case "NOT_EQUALS" | 2:
            return have != text
        case "IN":
            return have in [value.lower() for value in predicate["string_values"]["values"]]
        case "IS_SUBSTRING":  # by LIKE, whose wildcards are not escaped
            return re.search(re.escape(text).replace("%", ".*").replace("_", "."), have) is not None
        case other:
            raise Refusal(400, 3, f"Invalid input error: invalid predicate operation: {other}")
