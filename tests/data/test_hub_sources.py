"""Data sets of the Hub as sources, from a server that answers as the Hub does."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from rubricworks.data.hub import hub_files, hub_folder, hub_source
from rubricworks.data.rubric_sets import read_rubric_set
from rubricworks.errors import TransientError, UserError
from rubricworks.runtime.store.source_files import local_source

COMMIT = "9f26ac8b" * 5
RAR = (Path(__file__).parent / "rubric_files" / "rar.jsonl").read_bytes()
FILES = {"README.md": b"# RaR", "data/train.jsonl": RAR}


class Hub(BaseHTTPRequestHandler):
    """The Hub's API of one data set: org/open for all, org/closed with the token `key` only."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.asked.append(path)
        opened = self.headers.get("Authorization") == "Bearer key"
        name = next((name for name in ("org/open", "org/closed") if f"{name}/" in f"{path}/"), None)
        if name is None or (name == "org/closed" and not opened):
            return self.answer(401, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        if COMMIT not in path:
            return self.answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        if path.startswith(f"/api/datasets/{name}/revision/"):
            siblings = [{"rfilename": file} for file in FILES]
            return self.answer(200, {"id": name, "sha": COMMIT, "siblings": siblings})
        if path.startswith(f"/api/datasets/{name}/tree/"):
            tree = [
                {"type": "file", "path": file, "size": len(content), "oid": oid(content)}
                for file, content in FILES.items()
            ]
            return self.answer(200, tree)
        content = FILES[path.partition(f"/resolve/{COMMIT}/")[2]]
        return self.answer(200, content, {"ETag": f'"{oid(content)}"', "X-Repo-Commit": COMMIT})

    def answer(self, status, body, headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Length": str(len(content)), "Content-Type": "application/json", **(headers or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


def oid(content):
    return hashlib.sha1(content).hexdigest()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Hub,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    yield asked
    server.shutdown()
    server.server_close()


def test_rubrics_of_a_commit_are_read_and_fetched_once(hub):
    source = f"org/open@{COMMIT}/data/*.jsonl"
    folder = hub_folder(hub_source(source))
    assert [path.name for path in folder.parent.glob("*")] == ["train.jsonl"]
    (entry,) = read_rubric_set(f"org/open@{COMMIT}/data")
    assert entry.rubric.weights == [5, 4, 1, -1]
    assert sum("/resolve/" in path and "train" in path for path in hub) <= 2  # its head and its content
    assert not any("README" in path for path in hub)


def test_a_recipes_source_may_be_of_the_hub(hub):
    place = local_source(f"parquet:org/open@{COMMIT}/data/train.jsonl")
    assert place.startswith("parquet:/")
    assert Path(place.removeprefix("parquet:")).read_bytes() == RAR
    assert hub_files(hub_source(f"org/open@{COMMIT}/data")) == ["data/train.jsonl"]


def test_a_private_set_needs_the_token(hub, monkeypatch):
    source = hub_source(f"org/closed@{COMMIT}/data")
    with pytest.raises(UserError, match="needs HF_TOKEN"):
        hub_folder(source)
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(UserError, match="HF_TOKEN does not open it"):
        hub_folder(source)
    monkeypatch.setenv("HF_TOKEN", "key")
    assert (hub_folder(source) / "train.jsonl").read_bytes() == RAR


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("org/open", "needs a revision"),
        ("org/open@main", "may move"),
        ("org/open@9f26ac8", "may move"),
        (f"org/open@{'0' * 40}", "no commit 000"),
        (f"org/open@{COMMIT}/images", "no file images"),
        (f"org/nothing@{COMMIT}", "no such data set"),
    ],
)
def test_what_is_not_on_the_hub_or_not_pinned_is_refused(hub, source, words):
    with pytest.raises(UserError, match=words):
        list(read_rubric_set(source))


def test_a_hub_that_does_not_answer_is_another_attempts_matter(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(TransientError, match="does not give the data set"):
        hub_files(hub_source(f"org/open@{COMMIT}"))


def test_paths_here_are_no_data_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "cats").mkdir(parents=True)
    for path in (
        "photos/cats",
        "photos/dogs",
        "./org/name",
        "/org/name",
        "rubrics.parquet",
        "out/a.jsonl",
        "s3://b/c@d",
    ):
        assert hub_source(path) is None
