"""Checkpoints of one model in one running vLLM: its engine starts once, and takes the weights of each in turn.

A start costs minutes for compilation, memory profiling and graphs; new weights cost the time to read them. They replace
the old ones where two model directories differ in nothing else. Caches of what the old weights computed are emptied.
"""

import hashlib
import json
import os
import secrets
import signal
import sys
import threading
from pathlib import Path
from typing import Any

REPLACE_ROUTE = "/rubricworks/weights"
TOKEN_VARIABLE = "RUBRICWORKS_WEIGHTS_TOKEN"
"""Secret of the route, without which anyone on the machine could replace the model."""
_CARD = "README.md"
_UNREAD_KEYS = frozenset(
    [
        "transformers_version",
        "_name_or_path",
        "padding_side",
        "truncation_side",
        "truncation_strategy",
        "stride",
        "pad_token_type_id",
        "pad_to_multiple_of",
    ]
)
"""Settings without a meaning for vLLM, which pads nothing: a tokenizer that trained is saved with them."""
_CONFIGS = ("config.json", "generation_config.json", "tokenizer_config.json")


def layout_digest(folder: str | Path) -> str:
    """Digest of all that an engine reads from a model directory, with names and shapes in place of the weights.

    Two directories with the same digest are checkpoints of one model. A folder without safetensors has a digest of its
    own.
    """
    folder = Path(folder)
    files = sorted(path for path in folder.glob("*") if path.is_file())
    described: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for path in files:
        if path.suffix == ".safetensors":
            weights |= _header(path)
        elif path.name in _CONFIGS:
            config = json.loads(path.read_bytes())
            read = {key: value for key, value in config.items() if value is not None and key not in _UNREAD_KEYS}
            described[path.name] = read
        elif path.name != _CARD and not path.name.endswith(".index.json"):
            described[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    layout = [described, weights, "" if weights else str(folder.resolve())]
    return hashlib.sha256(json.dumps(layout, sort_keys=True).encode()).hexdigest()


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    return {name: [tensor["dtype"], tensor["shape"]] for name, tensor in header.items()}


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


class WeightsRoute:
    """ASGI middleware of vLLM's server: `POST {"folder": …}` replaces the weights.

    It ends the server when standard input closes, which the process that started it holds open: a killed evaluation
    leaves no server behind that fills the GPU.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        threading.Thread(target=_end_with_parent, daemon=True).start()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request
        from starlette.responses import JSONResponse

        if scope["type"] != "http" or scope["path"] != REPLACE_ROUTE:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        expected = f"Bearer {os.environ[TOKEN_VARIABLE]}"
        if not secrets.compare_digest(request.headers.get("authorization", "").encode(), expected.encode()):
            await JSONResponse({"error": "unauthorized"}, 401)(scope, receive, send)
            return
        engine = scope["app"].state.engine_client
        folder = (await request.json())["folder"]
        await engine.pause_generation(mode="abort")
        await engine.collective_rpc("reload_weights", kwargs={"weights_path": folder})
        await engine.reset_prefix_cache()
        await engine.reset_encoder_cache()
        await engine.resume_generation()
        await JSONResponse({"folder": folder})(scope, receive, send)
