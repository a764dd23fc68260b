"""Callers who send little or nothing are cut off; answers that take long are not."""

import itertools
import resource
import select
import socket
from urllib.parse import urlsplit

import pytest
import uvicorn
from pydantic import SecretStr
from served_api import TOKEN, followed, served
from trained_run import write_run

from rubricworks.listening import listen
from rubricworks.platform_api import serving
from rubricworks.platform_api.routers import runs as runs_router
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.runs.folder_lock import lock_folder

HEAD = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def url(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving, "_REQUEST_SECONDS", 0.3)
        patch.setattr(runs_router, "_HEARTBEAT_SECONDS", 0.0)
        patch.setattr(runs_router, "_SECONDS", 0.02)
        with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
            yield url


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ([], 0),
        ([b"GET"], 0),
        ([HEAD], 0),
        ([HEAD, b"\r\ntoken"], 0),
        ([GET, b"GET"], 1),
        ([HEAD.replace(b"login", b"absent"), b"\r\ntoken"], 1),
    ],
    ids=["nothing", "a word", "half a head", "half a body", "half a second head", "half a body that nobody reads"],
)
def test_a_connection_whose_request_does_not_come_is_closed(url, sent, answered):
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=300) as caller:
        for part in sent:
            caller.sendall(part)
            select.select([caller], [], [], 0 if part != GET else 300)
        answers = b"".join(iter(lambda: caller.recv(65536), b""))
    assert answers.count(b"HTTP/1.1 ") == answered


def test_an_answer_may_take_longer_than_its_request(url, folder):
    run = write_run(folder)
    with lock_folder(run), followed(url, f"{run.name}/events") as stream:
        comments = [line for line in itertools.islice(iter(stream.readline, b""), 120) if line.startswith(b":")]
    assert len(comments) > 50, "fifty looks take a second"


def test_the_server_may_have_more_connections_than_a_shell_grants(tmp_path, monkeypatch):
    of_files = resource.RLIMIT_NOFILE
    before = resource.getrlimit(of_files)
    limits = []
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda *_, **__: limits.append(resource.getrlimit(resource.RLIMIT_NOFILE))
    )
    monkeypatch.setattr(serving.pa, "set_memory_pool", lambda _: None)
    monkeypatch.setenv("RUBRICWORKS_DATABASE_URL", f"sqlite:///{tmp_path / 'platform.sqlite'}")
    resource.setrlimit(of_files, (1024, before[1]))
    try:
        with listen("127.0.0.1", 0) as listening:
            serving.serve(listening, str(tmp_path))
    finally:
        resource.setrlimit(of_files, before)
    assert limits == [(min(16_384, before[1]), before[1])]
