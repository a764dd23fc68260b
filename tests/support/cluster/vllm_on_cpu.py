"""vLLM on CPU cores: small caches, no compilation, and weights that a training can replace."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from object_store import free_port

CACHE_BYTES = 64_000_000
READY_WITHIN_S = 480


def make_vllm_fit_cpu(monkeypatch: Any) -> None:
    """Engines of this process start in seconds, and take weights from a training."""
    import vllm

    from rubricworks.training.policy.vllm_rollouts import keep_weights_on_cpu

    make = vllm.LLM.__init__

    def make_small(self: Any, *args: Any, **options: Any) -> None:
        make(self, *args, **{"enforce_eager": True, "kv_cache_memory_bytes": CACHE_BYTES, **options})

    keep_weights_on_cpu()
    monkeypatch.setattr(vllm.LLM, "__init__", make_small)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")


CPU_OPTIONS = ("--enforce-eager", "--kv-cache-memory-bytes", str(CACHE_BYTES))


@contextmanager
def served(model: Path, log: Path, *options: str) -> Iterator[str]:
    """`vllm serve` of a model folder under the name `served`; yields its base URL once it is healthy."""
    port = free_port()
    command = ["vllm", "serve", str(model), "--served-model-name", "served", "--host", "127.0.0.1", "--port", str(port)]
    with running([*command, *CPU_OPTIONS, *options], port, log) as url:
        yield url


@contextmanager
def running(command: list[str], port: int, log: Path, environment: dict[str, str] | None = None) -> Iterator[str]:
    """A server's command, run with the programs of this environment first on the path, until the block ends."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, **(environment or {}), "PATH": programs}
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables)
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
    for _ in range(READY_WITHIN_S * 2):
        assert server.poll() is None, log.read_text()[-4000:]
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"vllm serve is not healthy:\n{log.read_text()[-4000:]}")
