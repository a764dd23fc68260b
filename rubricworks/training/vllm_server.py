"""A model directory served by vLLM's own server, as a child process: continuous batches, several images a prompt.

An answer that runs into its limit delays no other, and the child is gone when the block ends.
"""

import importlib.util
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import torch
from transformers import AutoConfig

from rubricworks.errors import UserError
from rubricworks.training.config import EngineOptions

MOST_IMAGES = 8
"""Images of one prompt; MMMU-Pro has up to seven."""
_PATIENCE_S = 1800.0
"""Wait for the weights."""
_STOP_S = 60.0
_LOG_BYTES = 4000


def serves_by_vllm(options: EngineOptions) -> bool:
    """Return True if benchmarks are answered by vLLM: the recipe says so, or it is installed and there is a GPU."""
    return options.kind == "vllm" or (torch.cuda.is_available() and importlib.util.find_spec("vllm") is not None)


@contextmanager
def served_by_vllm(folder: str | Path, options: EngineOptions) -> Iterator[str]:
    """Serve a model directory; yields the base URL.

    Raises:
        UserError: vLLM is not installed, or cannot serve the model; the message has the reason.
    """
    if importlib.util.find_spec("vllm") is None:
        raise UserError('engine.kind is vllm, but vllm is not installed: pip install "rubricworks[gpu]"')
    with tempfile.TemporaryFile() as log:
        port = _free_port()
        server = subprocess.Popen(
            _command(folder, options, port), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + _PATIENCE_S
            while not _is_ready(url):
                if server.poll() is not None or time.monotonic() > deadline:
                    log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
                    said = _reason(log.read().decode(errors="replace"))
                    raise UserError(f"vLLM cannot serve {folder}: {said}; see engine.* in the recipe")
                time.sleep(0.5)
            yield f"{url}/v1"
        finally:
            server.terminate()
            try:
                server.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _command(folder: str | Path, options: EngineOptions, port: int) -> list[str]:
    config = AutoConfig.from_pretrained(str(folder))
    # vLLM takes float32 weights for float16 ones, which the values of a model trained in bfloat16 may exceed.
    whole = str(config.dtype).removeprefix("torch.") == "float32"
    dtype = ("bfloat16" if torch.cuda.is_available() else "float32") if whole else "auto"
    given = {
        "model": folder,
        "served-model-name": Path(folder).name,
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


def _is_ready(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _reason(log: str) -> str:
    """The last line of a log that names an error, or its last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["it printed nothing"])[-1][:300]
