"""A Hub to write to, for the commands that do."""

import threading
from http.server import ThreadingHTTPServer

import pytest
from hub_stand_in import WritableHub

BENCHMARK = (
    b"name: Charts\nevaluation_framework: lmms-eval\ntasks:\n  - {id: human, split: test}\n  - {id: all, split: test}\n"
)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Attributes of a stand-in for the Hub, which the environment leads to and whose token it holds."""
    attributes = {"asked": [], "files": {}, "made": {}, "blobs": {}, "refusal": None, "benchmark": BENCHMARK}
    handler = type("Mine", (WritableHub,), attributes)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_TOKEN", "key")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    # The stand-in has the older of the Hub's two ways for weights.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
    yield handler
    server.shutdown()
    server.server_close()
