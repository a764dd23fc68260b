"""Socket by which the stages of a run on this machine ask the run for the models that it serves.

A stage is a process of its own, and a model outlives the stage that started it, so the run's process owns the servers.
A stage sends one line of JSON and holds the connection; the run answers with the addresses, or with an error, and later
with a line about a model that cannot be kept running.
"""

import json
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rubricworks.errors import TransientError, UserError
from rubricworks.llm.served import ServedModel
from rubricworks.runtime.serving.identity import ServedIdentity, Weights
from rubricworks.runtime.serving.local_servers import LocalServers, Served
from rubricworks.terminal import say as say_line

SOCKET_ENV = "RUBRICWORKS_SERVING"
"""Environment variable with the socket's path."""


_LONGEST_PLACE = 70
"""Bytes of the folder of temporary files; a socket's path has 107 at most, on macOS 103."""


class RunServers:
    """Context manager of a run's servers and the socket that its stages use."""

    def __init__(
        self,
        run: Path,
        callers: Mapping[str, Collection[str]] | None = None,
        say: Callable[[str], None] = say_line,
    ) -> None:
        self._servers = LocalServers(run, callers, say, on_lost=self._tell_lost)
        self._connections: dict[socket.socket, str] = {}
        """Connection of a stage → name of the model that it asked for."""
        self._stack = ExitStack()

    def __enter__(self) -> "RunServers":
        place = None if len(os.fsencode(tempfile.gettempdir())) <= _LONGEST_PLACE else "/tmp"
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="rubricworks-", dir=place))
        self._path = f"{folder}/serving"
        self._stack.enter_context(self._servers)
        server = _Server(self._path, _handler(self._serve, self._servers.release, self._connections))
        self._stack.callback(server.server_close)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(server.shutdown)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def environment(self) -> dict[str, str]:
        """Variables for the next stage."""
        return {SOCKET_ENV: self._path, **self._servers.environment()}

    def stage_ended(self, stage: str) -> None:
        """Stop the models that no later stage calls."""
        self._servers.stage_ended(stage)

    def _serve(self, request: dict[str, Any]) -> dict[str, Any]:
        served = ServedModel.model_validate(request["served"])
        identity, weights = ServedIdentity(*request["identity"]), Weights(*request["weights"])
        try:
            return self._servers.serve(served, identity, weights)._asdict()
        except UserError as error:
            return {"error": str(error), "may_pass": isinstance(error, TransientError)}

    def _tell_lost(self, name: str, message: str) -> None:
        for connection, model in list(self._connections.items()):
            if model == name:
                with suppress(OSError):
                    connection.sendall(json.dumps({"lost": message}).encode() + b"\n")


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False


def _handler(
    serve: Callable[[dict[str, Any]], dict[str, Any]],
    release: Callable[[ServedModel], None],
    connections: dict[socket.socket, str],
) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = json.loads(self.rfile.readline() or b"{}")
            if not request:
                return
            connections[self.request] = request["served"]["name"]
            try:
                answer = serve(request)
                with suppress(OSError):
                    self.wfile.write(json.dumps(answer).encode() + b"\n")
                    self.rfile.read()  # until the stage ends
                if "urls" in answer:
                    release(ServedModel.model_validate(request["served"]))
            finally:
                del connections[self.request]

    return Handler


def ask_run(
    served: ServedModel,
    identity: ServedIdentity,
    weights: Weights,
    on_lost: Callable[[str], None],
) -> Served | None:
    """Ask the run of this stage for a model; None for a stage that runs by itself.

    Args:
        on_lost: called with the reason if the run cannot keep the model running.
    Raises:
        UserError: the model does not fit this machine, or does not start.
    """
    path = os.environ.get(SOCKET_ENV)
    if not path:
        return None
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
        request = {"served": served.model_dump(mode="json"), "identity": identity, "weights": weights}
        connection.sendall(json.dumps(request).encode() + b"\n")
        lines = connection.makefile("rb")
        answer = json.loads(lines.readline() or b"{}")
    except OSError as error:
        raise TransientError(f"{served.name}: the run that serves it does not answer ({error.strerror})") from error
    if "urls" not in answer:
        kind = TransientError if answer.get("may_pass", True) else UserError
        raise kind(answer.get("error", f"{served.name}: the run that serves it has ended"))

    def watch() -> None:
        with connection, suppress(OSError, ValueError):
            while line := lines.readline():
                on_lost(str(json.loads(line)["lost"]))

    threading.Thread(target=watch, name=f"serve-{served.name}", daemon=True).start()
    return Served(**answer)
