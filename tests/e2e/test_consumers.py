"""The examples of consumers, run as they are run: signed messages in, a version served and confirmed.

vLLM, GitHub and Argo CD are stand-ins on loopback, with the endpoints and the bodies of the real ones.
"""

import base64
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from served_api import exchange

from rubricworks.tracking import TrackingConfig, connect, registry
from rubricworks.tracking.model_flavour import MODEL_FOLDER
from rubricworks.tracking.promotion_messages import sign

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def stand_in(answer):
    """URL of a server; `answer(method, path, body)` gives status and JSON."""

    class Handler(BaseHTTPRequestHandler):
        def one(self):
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            status, content = answer(self.command, self.path, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        do_GET = do_POST = do_PUT = one

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@contextmanager
def example(name, *arguments, folder, **environment):
    whole = {**os.environ, "RUBRICWORKS_WEBHOOK_SECRET": "k3y", "RUBRICWORKS_API_TOKEN": "runner", **environment}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=whole, cwd=folder) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def send(url, number, version, digest=""):
    message = {"promotion": number, "kind": "promotion", "model": "captioner", "version": version, "digest": digest}
    body = json.dumps(message)
    headers = {"Rubricworks-Signature": sign("k3y", body, int(time.time()))}
    return exchange(url, method="POST", body=body.encode(), **headers)[0]


def test_vllm_loads_the_adapter_of_each_promotion_and_confirms(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    confirmed, loaded, calls = [], {"base": "base"}, []

    def api(method, path, body):
        confirmed.append(path)
        return 200, {}

    def vllm(method, path, body):
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": name, "root": root} for name, root in loaded.items()]}
        calls.append(path)
        if path == "/v1/unload_lora_adapter":
            del loaded[body["lora_name"]]
        elif body["lora_name"] in loaded or not (Path(body["lora_path"]) / "adapter_config.json").is_file():
            return 400, {"object": "error", "message": "it cannot be loaded", "code": 400}
        else:
            loaded[body["lora_name"]] = body["lora_path"]
        return 200, "Success"

    register(tmp_path, "adapter_config.json", 2)
    with (
        stand_in(api) as api_url,
        stand_in(vllm) as vllm_url,
        example(
            "vllm_consumer.py", vllm_url, str(tmp_path / "models"), "0", folder=tmp_path, RUBRICWORKS_API=api_url
        ) as url,
    ):
        assert send(url, 1, 1, "digest-1") == 200
        assert Path(loaded["captioner"]).is_relative_to(tmp_path / "models" / "captioner" / "1")
        assert send(url, 2, 2, "another") == 503, "it is not the version that was approved"
        assert send(url, 2, 2, "digest-2") == 200
        assert send(url, 1, 1, "digest-1") == 200, "it comes too late and changes nothing"
        assert json.loads(exchange(url)[2]) == {"serving": {"captioner": 2}}
    assert calls == ["/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/v1/load_lora_adapter"]
    assert confirmed == ["/api/v1/promotions/1/confirm", "/api/v1/promotions/2/confirm"]


def register(folder, file, versions):
    """Versions of a model, each a folder with one file."""
    connection = connect(TrackingConfig(), folder / "models")
    connection.client.create_registered_model("captioner")
    for version in range(1, versions + 1):
        source = folder / f"version-{version}"
        (source / MODEL_FOLDER).mkdir(parents=True)
        (source / MODEL_FOLDER / file).write_text("{}")
        connection.client.create_model_version("captioner", source=source.as_uri())
        tags = {registry.DIGEST_TAG: f"digest-{version}"}
        registry.tag(connection, registry.get_version(connection, "captioner", version), tags)


RESTART = """
    import pathlib, sys
    link, log = map(pathlib.Path, sys.argv[1:])
    version = link.resolve().parents[1].name
    with log.open("a") as lines:
        print(version, file=lines)
    if version == "2":
        sys.exit("no memory")
"""


def test_vllm_is_restarted_on_a_whole_model_and_on_the_one_before_if_that_fails(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    confirmed, started, script = [], tmp_path / "started", tmp_path / "restart.py"
    script.write_text(textwrap.dedent(RESTART))
    register(tmp_path, "config.json", 3)

    def api(method, path, body):
        confirmed.append(path)
        return 200, {}

    def vllm(method, path, body):
        return 200, {"object": "list", "data": [{"id": "captioner", "root": "/models/captioner/serving"}]}

    link = tmp_path / "models" / "captioner" / "serving"
    arguments = ("0", sys.executable, str(script), str(link), str(started))
    with stand_in(api) as api_url, stand_in(vllm) as vllm_url:
        of_example = {"folder": tmp_path, "RUBRICWORKS_API": api_url}
        with example("vllm_consumer.py", vllm_url, str(tmp_path / "models"), *arguments, **of_example) as url:
            assert send(url, 1, 1, "digest-1") == 200
            assert send(url, 2, 2, "digest-2") == 503, "it cannot be started"
            assert json.loads(exchange(url)[2]) == {"serving": {"captioner": 1}}
            assert send(url, 3, 3, "digest-3") == 200
        with example("vllm_consumer.py", vllm_url, str(tmp_path / "models"), "0", **of_example) as url:
            assert send(url, 4, 1, "digest-1") == 503, "nobody said how it is restarted"
    assert started.read_text().split() == ["1", "2", "1", "3"]
    assert (link / "config.json").is_file()
    assert confirmed == ["/api/v1/promotions/1/confirm", "/api/v1/promotions/3/confirm"]


def test_argocd_gets_one_pull_request_and_confirms_once_it_is_live(tmp_path):
    confirmed, branches, files, pulls = [], {"main": "c0"}, {}, []
    application = {"status": {"sync": {"status": "Synced", "revision": "c0"}, "health": {"status": "Healthy"}}}

    def api(method, path, body):
        confirmed.append(path)
        return 200, {}

    def github(method, target, body):
        parts = urlsplit(target)
        path = parts.path.removeprefix("/repos/team/deployments").strip("/")
        if path == "":
            return 200, {"default_branch": "main"}
        if path.startswith("git/ref/heads/"):
            name = path.removeprefix("git/ref/heads/")
            return (200, {"object": {"sha": branches[name]}}) if name in branches else (404, {})
        if path == "git/refs":
            branches[body["ref"].removeprefix("refs/heads/")] = body["sha"]
            return 201, {}
        if path == "contents/captioner/model.yaml":
            branch = body.get("branch") or parse_qs(parts.query)["ref"][0]
            if method == "PUT":
                files[branch] = base64.b64decode(body["content"]).decode()
                return 201, {}
            if branch not in files:
                return 404, {}
            return 200, {"content": base64.b64encode(files[branch].encode()).decode(), "sha": "f0"}
        if path == "pulls" and method == "POST":
            pulls.append({**body, "number": 1, "merged": False, "html_url": "https://github.example/pull/1"})
            return 201, pulls[-1]
        if path == "pulls":
            return 200, pulls
        return 200, pulls[0]

    def argocd(method, path, body):
        assert path == "/api/v1/applications/captioner"
        return 200, application

    with stand_in(api) as api_url, stand_in(github) as github_url, stand_in(argocd) as argocd_url:
        arguments = ("team/deployments", "captioner/model.yaml", argocd_url, "captioner", "0")
        tokens = {"GITHUB_TOKEN": "g", "ARGOCD_TOKEN": "a", "GITHUB_API": github_url, "RUBRICWORKS_API": api_url}
        with example("argocd_consumer.py", *arguments, folder=tmp_path, **tokens) as url:
            for _ in range(2):
                assert send(url, 7, 4, "3f5a") == 503
            assert files == {"promotion-7": "model: captioner\nversion: 4\ndigest: 3f5a\n"}
            assert (len(pulls), pulls[0]["head"], pulls[0]["base"]) == (1, "promotion-7", "main")
            pulls[0] |= {"merged": True, "merge_commit_sha": "c1"}
            assert send(url, 7, 4, "3f5a") == 503, "Argo CD has not synced it"
            application["status"]["sync"]["revision"] = "c1"
            assert confirmed == []
            assert send(url, 7, 4, "3f5a") == 200
    assert confirmed == ["/api/v1/promotions/7/confirm"]
