"""Argo CD that serves the champion: each promotion is a pull request with version and digest, confirmed once live.

    export RUBRICWORKS_API=https://… RUBRICWORKS_API_TOKEN=… RUBRICWORKS_WEBHOOK_SECRET=…
    export GITHUB_TOKEN=… ARGOCD_TOKEN=…
    python examples/argocd_consumer.py team/deployments captioner/model.yaml https://argocd.example.org captioner 8090

The file in the repository holds the version that the Deployment mounts:

    model: captioner
    version: 4
    digest: 3f5a…

A branch with the new content and its pull request are made once for each promotion. People, or the repository's own
rules, merge it; the message comes again until Argo CD has synced the merge and says that the application is healthy.
GITHUB_API names another server than api.github.com.
"""

import base64
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rubricworks.errors import UserError
from rubricworks.tracking.installation import named_api
from rubricworks.tracking.promotion_messages import Consumer, PromotionMessage, consumer_server


def call(method: str, url: str, token: str, body: dict[str, Any] | None = None) -> Any:
    """JSON answer of a server; None for 404."""
    head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, content, head, method=method), timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise UserError(f"{method} {url}: HTTP {error.code} {error.read(300).decode(errors='replace')}") from error


class PullRequests:
    """Pull requests of one file of a repository."""

    def __init__(self, api: str, repository: str, path: str, token: str) -> None:
        self._url, self._path, self._token = f"{api}/repos/{repository}", path, token

    def open(self, message: PromotionMessage) -> dict[str, Any]:
        """The pull request of a promotion, made unless it is there."""
        branch = f"promotion-{message.promotion}"
        owner = self._url.rsplit("/", 2)[1]
        pulls = self._call("GET", f"pulls?state=all&head={quote(f'{owner}:{branch}')}")
        if pulls:
            return self._call("GET", f"pulls/{pulls[0]['number']}")
        base = self._call("GET", "")["default_branch"]
        if self._call("GET", f"git/ref/heads/{branch}") is None:
            head = self._call("GET", f"git/ref/heads/{base}")["object"]["sha"]
            self._call("POST", "git/refs", {"ref": f"refs/heads/{branch}", "sha": head})
        title = f"{message.kind.capitalize()} of {message.model} to version {message.version}"
        text = f"model: {message.model}\nversion: {message.version}\ndigest: {message.digest}\n"
        current = self._call("GET", f"contents/{self._path}?ref={branch}") or {}
        if base64.b64decode(current.get("content", "")).decode() != text:
            change = {"message": title, "content": base64.b64encode(text.encode()).decode(), "branch": branch}
            self._call("PUT", f"contents/{self._path}", change | ({"sha": current["sha"]} if "sha" in current else {}))
        body = f"Version {message.version}, digest `{message.digest}`, approved as promotion {message.promotion}."
        return self._call("POST", "pulls", {"title": title, "head": branch, "base": base, "body": body})

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return call(method, f"{self._url}/{path}".rstrip("/"), self._token, body)


def require_live(argocd: str, application: str, token: str, revision: str) -> None:
    """Raise a UserError unless the application runs a revision and is healthy."""
    state = call("GET", f"{argocd}/api/v1/applications/{quote(application, safe='')}", token) or {}
    status = state.get("status", {})
    sync, health = status.get("sync", {}), status.get("health", {}).get("status")
    if (sync.get("status"), sync.get("revision"), health) != ("Synced", revision, "Healthy"):
        raise UserError(
            f"{application} is {sync.get('status')} at {sync.get('revision')}, {health}; waiting for {revision}"
        )


def main() -> None:
    repository, path, argocd, application, port = sys.argv[1:6]
    requests = PullRequests(
        os.environ.get("GITHUB_API", "https://api.github.com"), repository, path, os.environ["GITHUB_TOKEN"]
    )
    api = named_api()
    if api is None:
        raise SystemExit("name the installation by RUBRICWORKS_API")

    def apply(message: PromotionMessage) -> None:
        pull = requests.open(message)
        if not pull.get("merged"):
            raise UserError(f"{pull['html_url']} is not merged yet")
        require_live(argocd.rstrip("/"), application, os.environ["ARGOCD_TOKEN"], pull["merge_commit_sha"])

    consumer = Consumer(api, apply, Path("serving.json"))
    server = consumer_server(int(port), os.environ["RUBRICWORKS_WEBHOOK_SECRET"], consumer)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
