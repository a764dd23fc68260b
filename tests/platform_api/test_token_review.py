"""Service accounts call by their tokens, which the cluster reviews for this installation's audience."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, served

from rubricworks.platform_api.project import Kubernetes, Project
from rubricworks.platform_api.services.access import token_review
from rubricworks.platform_api.settings import ApiSettings

AUDIENCE = "rubricworks-captions"
ACCOUNTS = "system:serviceaccounts"


class Cluster:
    """A cluster that answers TokenReviews as Kubernetes 1.31 does, for accounts by their tokens."""

    def __init__(self) -> None:
        self.accounts = {
            "a.runner.x": ("captions", "pipeline-runner", [AUDIENCE]),
            "a.ci.x": ("ci", "robot", [AUDIENCE]),
            "a.stranger.x": ("others", "default", [AUDIENCE]),
            "a.internal.x": ("captions", "pipeline-runner", ["https://kubernetes.default.svc"]),
        }
        self.reviews: list[tuple[str, str]] = []
        """The service's own token and the reviewed one of each request."""
        self.status = 201
        self.knows_audiences = True

    def answer(self, own: str, spec: dict) -> tuple[int, dict]:
        self.reviews.append((own, spec["token"]))
        namespace, account, audiences = self.accounts.get(spec["token"], ("", "", []))
        both = [audience for audience in spec["audiences"] if audience in audiences]
        if self.status != 201 or not namespace or (self.knows_audiences and not both):
            return self.status, {"status": {"authenticated": False, "error": "invalid bearer token"}}
        groups = [ACCOUNTS, f"{ACCOUNTS}:{namespace}", "system:authenticated"]
        user = {"username": f"system:serviceaccount:{namespace}:{account}", "uid": "1", "groups": groups}
        answer = {"authenticated": True, "user": user} | ({"audiences": both} if self.knows_audiences else {})
        return 201, {"kind": "TokenReview", "status": answer}


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Iterator[tuple[Cluster, str]]:
    cluster = Cluster()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/apis/authentication.k8s.io/v1/tokenreviews"
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = cluster.answer(self.headers["Authorization"], review["spec"])
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    (tmp_path / "token").write_text("of-the-service\n")
    url = f"http://127.0.0.1:{server.server_port}"
    kubernetes = Kubernetes(audience=AUDIENCE, url=url, token_file=tmp_path / "token", ca_file=tmp_path / "none")
    roles = {"runner": (f"{ACCOUNTS}:captions",), "approver": ("system:serviceaccount:ci:robot",)}
    project = Project(name="captions", roles=roles, kubernetes=kubernetes)
    monkeypatch.setattr(token_review, "_FRESH_SECONDS", 0.0)
    with served(ApiSettings(storage=str(tmp_path / "runs"), token=SecretStr(TOKEN), project=project)) as url:
        yield cluster, url
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_account_has_the_role_of_its_namespace_or_of_its_own_name(cluster):
    cluster, url = cluster
    assert ask(f"{url}/api/v1/caller", **bearer("a.runner.x"))[1] == {
        "name": "system:serviceaccount:captions:pipeline-runner",
        "scope": "runner",
        "project": "captions",
    }
    assert ask(f"{url}/api/v1/caller", **bearer("a.ci.x"))[1]["scope"] == "approver"
    assert cluster.reviews[0] == ("Bearer of-the-service", "a.runner.x")


@pytest.mark.parametrize("token", ["a.forged.x", "a.internal.x"])
def test_a_token_that_the_cluster_does_not_know_or_of_another_audience_is_refused(cluster, token):
    status, body = ask(f"{cluster[1]}/api/v1/caller", **bearer(token))
    assert (status, "or of another project than captions" in body["detail"]) == (401, True)


def test_a_cluster_that_knows_no_audiences_gives_nobody_a_role(cluster):
    cluster, url = cluster
    cluster.knows_audiences = False
    assert exchange(f"{url}/api/v1/caller", **bearer("a.internal.x"))[0] == 401


def test_an_account_whose_groups_map_to_nothing_is_told_so(cluster):
    status, body = ask(f"{cluster[1]}/api/v1/caller", **bearer("a.stranger.x"))
    assert (status, body["detail"].partition(" is in no group")[0]) == (403, "system:serviceaccount:others:default")


def test_a_cluster_that_is_away_or_refuses_is_told_and_other_tokens_go_on(cluster):
    cluster, url = cluster
    cluster.status = 403
    status, body = ask(f"{url}/api/v1/caller", **bearer("a.runner.x"))
    assert (status, "bind its account to system:auth-delegator" in body["detail"]) == (503, True)
    assert exchange(f"{url}/api/v1/caller", **bearer())[0] == 200


def test_an_account_that_was_deleted_is_refused_once_its_review_is_old(cluster):
    cluster, url = cluster
    assert exchange(f"{url}/api/v1/caller", **bearer("a.runner.x"))[0] == 200
    del cluster.accounts["a.runner.x"]
    assert exchange(f"{url}/api/v1/caller", **bearer("a.runner.x"))[0] == 401
