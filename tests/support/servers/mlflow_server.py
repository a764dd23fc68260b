"""MLflow's own server in a process of its own, with its store in a folder; and a stand-in that answers one thing."""

import http.server
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rubricworks.tracking import TrackingConfig, connect


def start_mlflow(folder: Path, port: int) -> subprocess.Popen:
    """The server's process, once it answers."""
    # Laid down by us: the server's own migration flushes to disk seventy times.
    store = f"sqlite:///{folder}/server.db"
    connect(TrackingConfig(uri=store), folder)
    command = f"-m mlflow server --host 127.0.0.1 --port {port} --workers 1 --backend-store-uri {store}".split()
    server = subprocess.Popen(
        [sys.executable, *command, "--artifacts-destination", str(folder / "artifacts")],
        cwd=folder,
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return server
        except OSError:
            time.sleep(0.1)
    stop_mlflow(server)
    raise TimeoutError("the MLflow server did not start")


def stop_mlflow(server: subprocess.Popen) -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


EXPERIMENT = b'{"experiment": {"experiment_id": "7", "name": "rubricworks", "lifecycle_stage": "active"}}'


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/health":
            self.answer(200, b"OK")
        else:
            self.answer(*self.server.answer)  # type: ignore[attr-defined]

    do_POST = do_GET

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def mlflow_stand_in(
    context: ssl.SSLContext | None = None, answer: tuple[int, bytes] = (200, EXPERIMENT)
) -> Iterator[int]:
    """Port of a healthy server that answers every call alike, by default with one experiment."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.answer = answer  # type: ignore[attr-defined]
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()
