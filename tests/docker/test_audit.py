"""`make audit` against a service of advisories with OSV's API, and where there is none."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from locks import ROOT, locked
from peer_folders import PEERS

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not (PEERS / "pip-audit").is_dir(), reason="no pip-audit; run tests/cluster/install.sh"),
]
ADVISORY = {
    "id": "PYSEC-2026-1",
    "aliases": ["CVE-2026-1"],
    "summary": "A request reads what it may not",
    "affected": [
        {
            "package": {"name": "aiohttp", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}],
        }
    ],
}


class Advisories(ThreadingHTTPServer):
    """Advisories by package; counts what it was asked for."""

    def __init__(self) -> None:
        self.by_package: dict[str, list[object]] = {}
        self.asked: set[tuple[str, str]] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/query"


class _Handler(BaseHTTPRequestHandler):
    server: Advisories

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.add((query["package"]["name"], query["version"]))
        advisories = self.server.by_package.get(query["package"]["name"])
        body = json.dumps({"vulns": advisories} if advisories else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def advisories() -> Iterator[Advisories]:
    with Advisories() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def audit(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PEERS / "pip-audit")}
    command = [sys.executable, ROOT / "docker" / "audit.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_every_package_of_every_lock_is_audited_and_none_is_known_to_be_vulnerable(advisories):
    done = audit(advisories.url)
    pins = {pin for image in ("api", "cpu", "tools", "trainer", "vllm") for pin in locked(image).items()}
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{len(pins)} packages of 5 locks: no known vulnerabilities\n"
    assert advisories.asked == pins


def test_vulnerable_package_is_named_with_its_images_and_the_version_that_fixes_it(advisories):
    advisories.by_package["aiohttp"] = [ADVISORY]
    done = audit(advisories.url)
    version = locked("api")["aiohttp"]
    assert {locked(image)["aiohttp"] for image in ("api", "cpu", "trainer", "vllm")} == {version}
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == (
        f"aiohttp {version} (api, cpu, trainer, vllm): PYSEC-2026-1, CVE-2026-1; fixed in 99.1"
    )
    assert done.stdout.splitlines()[1].endswith("locks: 1 known vulnerabilities")


def test_without_a_list_of_advisories_nothing_counts_as_audited():
    done = audit("http://127.0.0.1:9/v1/query")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: no advisories from http://127.0.0.1:9/v1/query, so nothing was audited: ")
    assert len(done.stderr.splitlines()) == 1
