"""Streams of events: a number of them at most, one look for all of a run, and 503 where the database is overrun."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr
from served_api import TOKEN, ask, bearer, exchange, followed, served, wait_for
from sqlalchemy import text
from trained_run import write_run

from rubricworks.platform_api.db import engine
from rubricworks.platform_api.routers import runs as runs_router
from rubricworks.platform_api.services import run_list, runs
from rubricworks.platform_api.settings import ApiSettings
from rubricworks.platform_api.streams import MOST, MOST_OF_CALLER
from rubricworks.runs.folder_lock import lock_folder


def settings(folder):
    return ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)


@pytest.fixture
def going(tmp_path):
    """URL of a service, and a run that goes on."""
    run = write_run(tmp_path)
    with served(settings(tmp_path)) as url, lock_folder(run):
        yield url, run.name


def test_a_caller_has_a_number_of_streams_and_others_have_theirs(going):
    url, run = going
    secret = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "other", "scope": "viewer"}, **bearer())[1][
        "secret"
    ]
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(followed(url, f"{run}/events")) for _ in range(MOST_OF_CALLER)]
        assert {stream.status for stream in streams} == {200}
        status, headers, content = exchange(f"{url}/api/v1/runs/{run}/events", **bearer())
        assert (status, headers["retry-after"]) == (503, "30")
        assert headers["content-type"] == "application/problem+json"
        assert f"environment follows {MOST_OF_CALLER} streams of events already".encode() in content
        log = exchange(f"{url}/api/v1/runs/{run}/stages/train_policy/log/events", **bearer())
        assert log[0] == 503, "streams of all kinds count"
        assert ask(f"{url}/api/v1/runs/{run}", **bearer())[0] == 200
        with followed(url, f"{run}/events", secret) as stream:
            assert stream.status == 200
        streams[0].close()

    def is_open_again():
        with followed(url, f"{run}/events") as stream:
            return stream.status == 200

    wait_for(is_open_again)


def test_the_process_has_a_number_of_streams_of_all_callers(going, monkeypatch):
    url, run = going
    monkeypatch.setattr("rubricworks.platform_api.streams.MOST", 3)
    assert MOST > MOST_OF_CALLER
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(followed(url, f"{run}/events"))
        assert exchange(f"{url}/api/v1/runs/{run}/events", **bearer())[0] == 503


@pytest.mark.parametrize("path", ["events", "stages/train_policy/log/events"])
def test_all_streams_of_a_run_look_at_it_together(going, monkeypatch, path):
    url, run = going
    monkeypatch.setattr(runs_router, "_HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(runs_router, "_SECONDS", 0.1)
    looks, get_run = [], runs.get_run

    async def counted(session, name):
        looks.append(name)
        return await get_run(session, name)

    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(followed(url, f"{run}/{path}")) for _ in range(20)]
        monkeypatch.setattr(runs, "get_run", counted)

        def comments(stream):
            seen = 0
            while seen < 10:
                seen += stream.readline().startswith(b":")
            return seen

        with ThreadPoolExecutor(20) as pool:
            assert sum(pool.map(comments, streams)) == 200
        monkeypatch.undo()
    assert len(looks) < 100, "200 comments follow 200 looks of the streams"


def test_a_request_beyond_all_connections_of_the_database_gets_503(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_POOL_SECONDS", 0.2)
    go_on, list_runs, waiting = threading.Event(), run_list.list_runs, []

    async def slow(session, *arguments, **filters):
        await session.execute(text("SELECT 1"))  # takes a connection
        waiting.append(session)
        await runs.asyncio.to_thread(go_on.wait, 300)
        return await list_runs(session, *arguments, **filters)

    monkeypatch.setattr(run_list, "list_runs", slow)
    with served(settings(tmp_path)) as url, ThreadPoolExecutor(20) as pool:
        secret = ask(f"{url}/api/v1/tokens", method="POST", body={"name": "ci", "scope": "viewer"}, **bearer())[1][
            "secret"
        ]
        try:
            held = [pool.submit(exchange, f"{url}/api/v1/runs", **bearer()) for _ in range(15)]
            wait_for(lambda: len(waiting) == 15)
            for token in (TOKEN, secret):
                status, headers, content = exchange(f"{url}/api/v1/runs", **bearer(token))
                assert (status, headers["content-type"]) == (503, "application/problem+json")
                assert headers["retry-after"] == "2"
                assert b"all connections to the database are in use" in content
            page = exchange(f"{url}/runs", Accept="text/html", **bearer())
            assert page[0] == 503
        finally:
            go_on.set()
        assert {answer.result()[0] for answer in held} == {200}
