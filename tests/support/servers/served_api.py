"""The service on a port of its own, and questions to it over HTTP."""

import http.client
import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rubricworks.listening import listen, url_of
from rubricworks.platform_api.app import create_app
from rubricworks.platform_api.services.access.principals import SCOPES
from rubricworks.platform_api.serving import server_of
from rubricworks.platform_api.settings import ApiSettings

TOKEN = "t0ken-of-the-tests-0123456789"


@contextmanager
def served(settings: ApiSettings) -> Iterator[str]:
    """The URL of a service with these settings; it ends with the block."""
    listening = listen("127.0.0.1", 0)
    server = server_of(create_app(settings.model_copy(update={"own_url": url_of(listening)})))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()


def ask(url: str, *, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any]:
    """Status and JSON body."""
    status, _, content = exchange(url, method=method, body=body, **headers)
    return status, json.loads(content)


def exchange(url: str, *, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers by their names in small letters, and body; a value that is no bytes is sent as JSON."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=300)
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    if sent is not None:
        headers.setdefault("Content-Type", "application/json")
    if method == "POST":
        headers.setdefault("Idempotency-Key", uuid.uuid4().hex)
    try:
        connection.request(method, parts.path + ("?" + parts.query if parts.query else ""), body=sent, headers=headers)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def bearer(token: str = TOKEN) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def followed(url: str, path: str, token: str = TOKEN) -> Iterator[http.client.HTTPResponse]:
    """A stream of events of a run that is going, below the run's folder; five minutes of silence are too many."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    run = path.partition("/")[0]
    wait_for(lambda: ask(f"{url}/api/v1/runs/{run}", **bearer(token))[1].get("state") == "going")
    try:
        connection.request("GET", f"/api/v1/runs/{path}", headers=bearer(token))
        yield connection.getresponse()
    finally:
        connection.close()


def wait_for(condition: Callable[[], Any], seconds: float = 300) -> None:
    """Return once the condition holds; fail if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def wait_for_rollouts(url: str, run: str = "today-1", stage: str = "train_policy", **headers: str) -> None:
    """Return once all groups of a `trained_run` are indexed: the run and its tables come first, then shard by shard."""
    groups = f"{url}/api/v1/runs/{run}/stages/{stage}/groups"
    wait_for(lambda: len(ask(groups, **headers)[1].get("items", [])) == 4)


def forget_opinions(runs: Path) -> None:
    """Remove all labels and preferences from a service, so that a test begins without those of others."""
    with sqlite3.connect(runs / "platform.db") as database:
        for table in ("labels", "choices"):
            database.execute(f"DELETE FROM {table}")


class Caller:
    """Callers of one service by name; a name begins with the scope of its token, or the caller is an admin."""

    def __init__(self, url: str) -> None:
        self.pages, self.url, self.keys = url, f"{url}/api/v1", 0
        self.secrets: dict[str, str] = {}

    def secret(self, who: str) -> str:
        """The caller's token, which is made on first use."""
        if who not in self.secrets:
            scope = next((scope for scope in SCOPES if who.startswith(scope)), "admin")
            made = ask(f"{self.url}/tokens", method="POST", body={"name": who, "scope": scope}, **bearer())
            self.secrets[who] = made[1]["secret"]
        return self.secrets[who]

    def post(self, who: str, path: str, body: Any = None, key: str | None = None) -> tuple[int, Any]:
        """Status and body of a POST under a key of its own."""
        secret = self.secret(who)
        self.keys += 1
        headers = {"Idempotency-Key": key or f"key-{self.keys:08}"} | bearer(secret)
        return ask(f"{self.url}/{path}", method="POST", body={} if body is None else body, **headers)

    def get(self, path: str) -> Any:
        """Body of a GET by an admin."""
        return ask(f"{self.url}/{path}", **bearer())[1]
