"""A model directory served by vLLM's own server, as a child process: continuous batches, several images a prompt.

An answer that runs into its limit delays no other. Further checkpoints of the model are served by the same child, which
is gone when the block ends.
"""

import importlib.util
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.error import URLError

import torch
from transformers import AutoConfig

from rubricworks.data.hub import model_place
from rubricworks.errors import UserError
from rubricworks.training.config import EngineOptions
from rubricworks.training.engine import SERVED_NAME
from rubricworks.training.vllm_weights import REPLACE_ROUTE, TOKEN_VARIABLE, WeightsRoute, layout_digest

MOST_IMAGES = 8
"""Images of one prompt; MMMU-Pro has up to seven."""
_PATIENCE_S = 1800.0
"""Wait for the weights."""
_STOP_S = 60.0
_LOG_BYTES = 4000
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def serves_by_vllm(options: EngineOptions) -> bool:
    """Return True if vLLM answers benchmarks: the recipe requests it, or it is installed and there is a GPU."""
    return options.kind == "vllm" or (torch.cuda.is_available() and importlib.util.find_spec("vllm") is not None)


@contextmanager
def served_by_vllm(folder: str | Path, options: EngineOptions) -> Iterator["VllmServer"]:
    """Serve a model directory.

    Raises:
        UserError: vLLM is not installed, or cannot serve the model; the message has the reason.
    """
    if importlib.util.find_spec("vllm") is None:
        raise UserError('engine.kind is vllm, but vllm is not installed: pip install "rubricworks[gpu]"')
    with tempfile.TemporaryFile() as log:
        server = VllmServer(options, log)
        try:
            server.load(folder)
            yield server
        finally:
            server.close()


class VllmServer:
    """vLLM's server on a port of this machine."""

    def __init__(self, options: EngineOptions, log: IO[bytes]) -> None:
        self._options, self._log = options, log
        self._token = secrets.token_urlsafe(16)
        self._root = ""
        self._layout = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Base URL."""
        return f"{self._root}/v1"

    def load(self, folder: str | Path) -> None:
        """Serve another model directory, with the running engine if only the weights differ.

        Raises:
            UserError: vLLM cannot serve the model.
        """
        folder = model_place(str(folder))
        layout = layout_digest(folder) if Path(folder).is_dir() else folder
        if self._process is not None and layout == self._layout:
            self._replace_weights(folder)
        else:
            self.close()
            self._start(folder)
            self._layout = layout

    def close(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None

    def _start(self, folder: str | Path) -> None:
        port = _free_port()
        self._root = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            _command(folder, self._options, port),
            stdin=subprocess.PIPE,  # the server ends when it closes
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env={**os.environ, TOKEN_VARIABLE: self._token},
        )
        deadline = time.monotonic() + _PATIENCE_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failure(folder)
            time.sleep(0.5)

    def _replace_weights(self, folder: str | Path) -> None:
        request = urllib.request.Request(
            self._root + REPLACE_ROUTE,
            json.dumps({"folder": str(Path(folder).resolve())}).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with _DIRECT.open(request, timeout=_PATIENCE_S):
                pass
        except (URLError, OSError) as error:
            raise self._failure(folder) from error

    def _is_ready(self) -> bool:
        try:
            with _DIRECT.open(f"{self._root}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def _failure(self, folder: str | Path) -> UserError:
        self._log.seek(max(0, self._log.seek(0, 2) - _LOG_BYTES))
        said = _reason(self._log.read().decode(errors="replace"))
        return UserError(f"vLLM cannot serve {folder}: {said}; see engine.* in the recipe")


def _command(folder: str | Path, options: EngineOptions, port: int) -> list[str]:
    config = AutoConfig.from_pretrained(str(folder))
    # vLLM takes float32 weights for float16 ones, which the values of a model trained in bfloat16 may exceed.
    whole = str(config.dtype).removeprefix("torch.") == "float32"
    dtype = ("bfloat16" if torch.cuda.is_available() else "float32") if whole else "auto"
    given = {
        "model": folder,
        "served-model-name": SERVED_NAME,
        "middleware": f"{WeightsRoute.__module__}.{WeightsRoute.__qualname__}",
        "host": "127.0.0.1",
        "port": port,
        "dtype": dtype,
        "tensor-parallel-size": options.tensor_parallel,
        "gpu-memory-utilization": options.gpu_memory,
        "generation-config": "vllm",  # what a model's own file says of temperature is not what the caller asks for
    }
    if hasattr(config, "vision_config"):
        given["limit-mm-per-prompt"] = json.dumps({"image": MOST_IMAGES, "video": 0})
    if options.max_model_length is not None:
        given["max-model-len"] = options.max_model_length
    flags = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *flags]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _reason(log: str) -> str:
    """The last line of a log that names an error, or its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["it printed nothing"])[-1][:300]
