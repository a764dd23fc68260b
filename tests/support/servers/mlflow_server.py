"""MLflow's own server in a process of its own, with its store in a folder."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
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
