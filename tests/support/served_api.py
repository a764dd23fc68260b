"""The service on a port of its own, and questions to it over HTTP."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from rubricworks.platform_api.app import create_app
from rubricworks.platform_api.serving import url_of
from rubricworks.platform_api.settings import ApiSettings

TOKEN = "t0ken-of-the-tests-0123456789"


@contextmanager
def served(settings: ApiSettings) -> Iterator[str]:
    """The URL of a service with these settings; it ends with the block."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(settings), log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        thread.join()


def ask(url: str, *, method: str = "GET", **headers: str) -> tuple[int, Any]:
    """Status and JSON body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=20)
    try:
        connection.request(method, parts.path, headers=headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def bearer(token: str = TOKEN) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}
