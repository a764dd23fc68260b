"""A stand-in for the Hugging Face Hub: the API that reads one commit of a data set."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import unquote, urlsplit

COMMIT = "9f26ac8b" * 5


class Hub(BaseHTTPRequestHandler):
    """The Hub's API of one data set: org/open for all, org/closed with the token `key` only."""

    protocol_version = "HTTP/1.1"
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
        if COMMIT not in path:
            return self.answer(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        if path.startswith(f"/api/datasets/{name}/revision/"):
            siblings = [{"rfilename": file} for file in self.files]
            return self.answer(200, {"id": name, "sha": COMMIT, "siblings": siblings})
        if path.startswith(f"/api/datasets/{name}/tree/"):
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


def oid(content):
    return hashlib.sha1(content).hexdigest()
