"""MLflow's settings while files of gigabytes travel: long timeouts, more attempts, parts instead of whole files.

A request of a few bytes must fail within seconds, or a dead server would hold up a training. The answer to a model's
file may take minutes, since a server in front of a store answers only when it has passed everything on. MLflow reads
both from the same variables, so they are set while files travel, and only then.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

REQUEST_SETTINGS = {
    # MLflow's own defaults retry for five minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}
_TRANSFER_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "6",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3600",
    "MLFLOW_ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT": "3600",
    # A part fails and is repeated by itself; of a store's at most 10,000 parts, these hold 640 GB.
    "MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE": str(128 << 20),
    "MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE": str(64 << 20),
}

_lock = threading.Lock()
_transfers = 0
_before: dict[str, str | None] = {}


@contextmanager
def long_transfers() -> Iterator[None]:
    """Let MLflow take its time while the block runs; variables that the user has set stay."""
    global _transfers
    with _lock:
        if _transfers == 0:
            for name, value in _TRANSFER_SETTINGS.items():
                if os.environ.get(name) in (None, REQUEST_SETTINGS.get(name)):
                    _before[name] = os.environ.get(name)
                    os.environ[name] = value
        _transfers += 1
    try:
        yield
    finally:
        with _lock:
            _transfers -= 1
            if _transfers == 0:
                for name, before in _before.items():
                    os.environ.pop(name, None) if before is None else os.environ.update({name: before})
                _before.clear()
