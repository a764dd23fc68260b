"""Uploads and downloads that a server takes long to answer, in MLflow's own client, against a real HTTP server."""

import json
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rubricworks.errors import UserError
from rubricworks.tracking import TrackingConfig, connect, registry
from rubricworks.tracking.artifacts import fetch_artifacts
from rubricworks.tracking.transfers import REQUEST_SETTINGS, long_transfers

pytest.importorskip("mlflow")
ROOT = "/api/2.0/mlflow-artifacts/artifacts"
PAUSE = 2.5
SETTINGS = [
    *REQUEST_SETTINGS, "MLFLOW_ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT", "MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE",
    "MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE", "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD",
]  # fmt: skip


class SlowStore(ThreadingHTTPServer):
    """MLflow's artifact proxy in front of a slow store: it answers a big file only after a pause."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.parts: dict[int, bytes] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: SlowStore

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, content: bytes = b"{}", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def do_PUT(self) -> None:
        content = self.body()
        if self.path.startswith("/part/"):
            number = int(self.path.removeprefix("/part/"))
            self.server.parts[number] = content
            self.answer(ETag=f"part-{number}")
            return
        self.server.files[self.path.removeprefix(f"{ROOT}/")] = content
        if self.path.endswith(".safetensors"):
            time.sleep(PAUSE)
        self.answer()

    def do_POST(self) -> None:
        fields = json.loads(self.body())
        if "/mpu/create/" in self.path:
            credentials = [
                {"url": f"{self.server.url}/part/{number + 1}", "part_number": number + 1, "headers": {}}
                for number in range(fields["num_parts"])
            ]
            self.answer(json.dumps({"upload_id": "u", "credentials": credentials}).encode())
        else:
            place = self.path.partition("/mpu/complete/")[2]
            content = b"".join(self.server.parts[part["part_number"]] for part in fields["parts"])
            self.server.files[f"{place}/{Path(fields['path']).name}"] = content
            self.answer()

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?path=")
        if query or path == ROOT:
            root = query.replace("%2F", "/")
            names = [name.removeprefix(f"{root}/") for name in self.server.files if name.startswith(f"{root}/")]
            files = [{"path": name, "is_dir": False, "file_size": 1} for name in names if "/" not in name]
            files += [{"path": name, "is_dir": True} for name in {name.split("/")[0] for name in names if "/" in name}]
            self.answer(json.dumps({"files": files}).encode())
            return
        if self.path.endswith(".safetensors"):
            time.sleep(PAUSE)
        self.answer(self.server.files[path.removeprefix(f"{ROOT}/")])


@pytest.fixture
def store() -> Iterator[SlowStore]:
    server = SlowStore()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@pytest.fixture
def connection(store, tmp_path, monkeypatch):
    """A registry whose files lie in the slow store; requests time out after one second."""
    for name in (*SETTINGS, "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    for name, value in (("MLFLOW_HTTP_REQUEST_TIMEOUT", "1"), ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")):
        monkeypatch.setitem(REQUEST_SETTINGS, name, value)
        monkeypatch.setitem(connect.__globals__["_ENVIRONMENT"], name, value)
    connection = connect(TrackingConfig(), tmp_path)
    experiment = connection.client.create_experiment("slow", artifact_location=f"{store.url}{ROOT}")
    return connection, connection.client.create_run(experiment).info.run_id


@pytest.fixture
def model(tmp_path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(os.urandom(3 << 20))
    return folder


def weights(store: SlowStore) -> bytes:
    return next(content for name, content in store.files.items() if name.endswith("model/model.safetensors"))


def test_model_is_uploaded_and_fetched_although_the_server_answers_late(connection, store, model, tmp_path):
    connection, run = connection
    version = registry.register(connection, model, "captioner", run=run, tags={})
    assert weights(store) == (model / "model.safetensors").read_bytes()
    fetched = registry.model_files(fetch_artifacts(connection, version.source, tmp_path / "back", "the model"))
    assert (fetched / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "1"
    assert "MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE" not in os.environ


def test_requests_beside_the_files_stay_short(connection, store, model):
    connection, run = connection
    with pytest.raises(UserError, match="timeout"), connect.__globals__["report_mlflow_errors"](connection.uri):
        connection.client.log_artifact(run, str(model / "model.safetensors"))


def test_big_file_goes_in_parts_where_the_server_offers_them(connection, store, model, monkeypatch):
    connection, run = connection
    monkeypatch.setenv("MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD", "true")
    monkeypatch.setenv("MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE", str(2 << 20))
    monkeypatch.setenv("MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE", str(1 << 20))
    registry.register(connection, model, "captioner", run=run, tags={})
    assert [len(store.parts[number]) for number in (1, 2, 3)] == [1 << 20] * 3
    assert weights(store) == (model / "model.safetensors").read_bytes()


def test_shard_of_14_gigabytes_fits_into_the_parts_of_a_store(monkeypatch):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    with long_transfers():
        part = int(os.environ["MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE"])
        assert int(os.environ["MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE"]) < 14e9
        assert 14e9 / part < 10_000  # S3's limit
        assert part >= 5 << 20  # S3's smallest part
        with long_transfers():
            pass
        assert "MLFLOW_MULTIPART_UPLOAD_CHUNK_SIZE" in os.environ
    assert not {*SETTINGS} & os.environ.keys()


def test_settings_of_the_user_are_kept(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")
    with long_transfers():
        assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "7"
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "7"
