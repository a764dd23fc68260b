"""vLLM on CPU cores: small caches, no compilation, and weights that a training can replace."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from object_store import free_port

CACHE_BYTES = 64_000_000
READY_WITHIN_S = 240


def make_vllm_fit_cpu(monkeypatch: Any) -> None:
    """Engines of this process start in seconds, and take weights from a training.

    The CPU kernels pack a layer's weights for themselves and drop the originals, which `load_weights` fills.
    """
    import torch
    import vllm
    from vllm.model_executor.layers import utils

    def keep_weights(layer: torch.nn.Module, remove_weight: bool = False) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    make = vllm.LLM.__init__

    def make_small(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **{"enforce_eager": True, "kv_cache_memory_bytes": CACHE_BYTES, **options})

    monkeypatch.setattr(utils, "dispatch_cpu_unquantized_gemm", keep_weights)
    monkeypatch.setattr(vllm.LLM, "__init__", make_small)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


@contextmanager
def served(model: Path, log: Path, *options: str) -> Iterator[str]:
    """`vllm serve` of a model folder as `served`; yields its base URL once it is healthy."""
    port = free_port()
    command = [
        *(str(Path(sys.executable).with_name("vllm")), "serve", str(model), "--served-model-name", "served"),
        *("--host", "127.0.0.1", "--port", str(port), "--enforce-eager", "--kv-cache-memory-bytes", str(CACHE_BYTES)),
        *options,
    ]
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ})
    try:
        _wait(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import time

    for _ in range(READY_WITHIN_S * 2):
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"vllm serve is not healthy:\n{log.read_text()[-4000:]}")
