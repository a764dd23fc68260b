"""A stand-in for the Hugging Face Hub: the API that reads one commit of a repository, and writes one."""

import hashlib
import json
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "9f26ac8b" * 5


class Hub(BaseHTTPRequestHandler):
    """The Hub's API of one repository: org/open for all, org/closed with the token `key` only."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    asked: list[str]
    names: tuple[str, ...] = ("org/open", "org/closed")
    files: dict[str, bytes]

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        self.asked.append(path)
        opened = self.headers.get("Authorization") == "Bearer key"
        name = next((name for name in self.names if f"{name}/" in f"{path}/"), None)
        if name is None or (name == "org/closed" and not opened):
            return self.answer(401, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        if path.startswith("/api/") and path.endswith(f"/{name}"):
            return self.answer(200, {"id": name, "sha": COMMIT})
        if COMMIT not in path:
            return self.answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        if f"/{name}/revision/" in path:
            siblings = [{"rfilename": file} for file in self.files]
            return self.answer(200, {"id": name, "sha": COMMIT, "siblings": siblings})
        if f"/{name}/tree/" in path:
            tree = [
                {"type": "file", "path": file, "size": len(content), "oid": oid(content)}
                for file, content in self.files.items()
            ]
            return self.answer(200, tree)
        content = self.files[path.partition(f"/resolve/{COMMIT}/")[2]]
        return self.answer(200, content, {"ETag": f'"{oid(content)}"', "X-Repo-Commit": COMMIT})

    def answer(self, status, body, headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Length": str(len(content)), "Content-Type": "application/json", **(headers or {})}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


class WritableHub(Hub):
    """The Hub's API of the data set or model `org/mine`, to which the token `key` may write.

    Weights are uploaded as the Hub wants them: announced, put where it says, and named in the commit.
    """

    names = ("org/mine",)
    made: dict[str, object]
    is_new = False
    """The repository is there only once it is made."""
    refusal: int | None = None
    """Status of every request that would write."""
    blobs: dict[str, bytes]
    benchmark: bytes
    """`eval.yaml` of the data set org/bench; org/data has none."""

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def do_GET(self):
        path = urlsplit(self.path).path
        if path.startswith("/api/") and path.endswith("/org/mine") and self.is_new and not self.made:
            return self.answer(401, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        if path.startswith("/datasets/org/bench/resolve/"):
            headers = {"ETag": f'"{oid(self.benchmark)}"', "X-Repo-Commit": COMMIT}
            return self.answer(200, self.benchmark, headers)
        if path.startswith("/datasets/org/data/resolve/"):
            return self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
        return super().do_GET()

    def do_PUT(self):
        self.blobs[self.path.rpartition("/")[2]] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"")

    def do_POST(self):
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != "Bearer key":
            return self.answer(403, {"error": "Forbidden"})
        if self.refusal:
            return self.answer(self.refusal, {"error": "no"})
        if path == "/api/repos/create":
            self.made.update(json.loads(body))
            return self.answer(200, {"url": f"{self.address}/org/mine"})
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if path.endswith("/org/mine.git/info/lfs/objects/batch"):
            objects = [
                {**item, "actions": {"upload": {"href": f"{self.address}/blobs/{item['oid']}"}}}
                for item in json.loads(body)["objects"]
            ]
            return self.answer(200, {"transfer": "basic", "objects": objects})
        if "/org/mine/preupload/" in path:
            files = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            return self.answer(200, {"files": files})
        assert "/org/mine/commit/" in path, path
        for line in body.splitlines():
            kind, value = json.loads(line)["key"], json.loads(line)["value"]
            if kind == "file":
                self.files[value["path"]] = b64decode(value["content"])
            elif kind == "lfsFile":
                self.files[value["path"]] = self.blobs[value["oid"]]
            else:
                self.made["summary"] = value["summary"]
        return self.answer(
            200, {"success": True, "commitUrl": f"{self.address}/org/mine/commit/{COMMIT}", "commitOid": COMMIT}
        )


def oid(content):
    return hashlib.sha1(content).hexdigest()


@contextmanager
def serving(files: Mapping[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Paths that are asked of a Hub with these files; within the block the client asks it, without a token.

    Args:
        folder: where the client keeps what it fetched.
    """
    asked: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Hub,), {"asked": asked, "files": files}))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(folder / "token"))
    yield asked
    server.shutdown()
    server.server_close()
