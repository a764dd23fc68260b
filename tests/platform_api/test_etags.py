"""Answers to GETs carry an ETag, by which who has the answer already is told that it is the same."""

import asyncio
import re

import pytest
from pydantic import SecretStr
from repeated_posts import LABEL, LABELS
from served_api import TOKEN, Caller, bearer, exchange, served, wait_for_rollouts
from starlette.responses import StreamingResponse
from trained_run import STAGE, finish_tables, write_rubrics, write_run

from rubricworks.platform_api.app import guarded_routes
from rubricworks.platform_api.limits import HeadRequests
from rubricworks.platform_api.settings import ApiSettings

VALUES = {"run": "today-1", "stage": STAGE, "step": "1", "sample_id": "a", "number": "1", "digest": "0" * 64}
READS = [
    re.sub(r"\{(\w+)\}", lambda match: (VALUES | {"form": "csv"})[match[1]], route.path)
    for route in guarded_routes()
    if "GET" in route.methods
    and route.path.startswith("/api/v1")
    and not route.path.endswith(("/events", "/changes/export"))
]


@pytest.fixture(scope="module")
def caller(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    run = write_run(folder)
    write_rubrics(run)
    finish_tables(run)
    with served(ApiSettings(storage=str(folder), token=SecretStr(TOKEN), index_seconds=0.05)) as url:
        wait_for_rollouts(url, **bearer())
        yield Caller(url)


@pytest.mark.slow
def test_every_read_is_tagged_and_is_not_sent_again_while_it_is_the_same(caller):
    result, untagged = 0, {}
    for path in READS:
        status, headers, content = exchange(caller.pages + path, **bearer())
        if status != 200:
            assert "etag" not in headers, path
            continue
        result += 1
        tag = headers.get("etag", "")
        again = exchange(caller.pages + path, **{"If-None-Match": tag}, **bearer())
        other = exchange(caller.pages + path, **{"If-None-Match": '"another"'}, **bearer())
        is_same = (again[0], again[1].get("etag"), again[2]) == (304, tag, b"")
        if not is_same or (other[0], other[2]) != (200, content):
            untagged[path] = (tag, again[0], other[0])
    assert result > 15
    assert untagged == {}


@pytest.mark.slow
@pytest.mark.parametrize("who", ["viewer-1", "admin-1"])
def test_a_head_is_answered_as_a_get_without_its_body(caller, who):
    secret, differ = bearer(caller.secret(who)), {}
    for path in [*READS, "/runs", "/runs/today-1", "/tokens", "/runs/none", "/none", "/healthz", "/static/report.css"]:
        answers = [exchange(caller.pages + path, method=method, **secret) for method in ("GET", "HEAD")]
        (status, headers, _), (of_head, headers_of_head, content) = answers
        names = ("etag", "content-length", "content-type", "content-security-policy")
        stored = [headers.get(name) for name in names] == [headers_of_head.get(name) for name in names]
        if not stored or (of_head, content) != (status, b""):
            differ[path] = answers
    assert differ == {}
    tag = exchange(f"{caller.url}/runs", method="HEAD", **secret)[1]["etag"]
    assert exchange(f"{caller.url}/runs", method="HEAD", **{"If-None-Match": tag}, **secret)[0] == 304
    assert exchange(f"{caller.url}/runs", method="HEAD")[0] == 401


def test_a_head_of_a_stream_ends_at_once():
    sent, is_complete = [], asyncio.Event()

    async def receive():  # as uvicorn does
        await is_complete.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            is_complete.set()

    async def endless():
        while True:
            yield "more"
            await asyncio.sleep(0)

    scope = {"type": "http", "method": "HEAD", "asgi": {"spec_version": "2.3"}}
    asyncio.run(asyncio.wait_for(HeadRequests(StreamingResponse(endless()))(scope, receive, send), 10))
    assert sent == ["http.response.start", "http.response.body"]


def test_the_tag_of_an_answer_that_changed_is_another(caller):
    path = f"{caller.url}/{LABELS}"
    before = exchange(path, **bearer())[1]["etag"]
    assert caller.post("runner", LABELS, LABEL)[0] == 201
    status, headers, _ = exchange(path, **{"If-None-Match": before}, **bearer())
    assert (status, headers["etag"] != before) == (200, True)
    for known in ("*", f"W/{headers['etag']}", f'"x", {headers["etag"]}'):
        assert exchange(path, **{"If-None-Match": known}, **bearer())[0] == 304


def test_who_may_not_read_is_not_told_that_an_answer_is_the_same(caller):
    assert exchange(f"{caller.url}/tokens", **{"If-None-Match": "*"}, **bearer(caller.secret("viewer")))[0] == 403
    assert exchange(f"{caller.url}/runs", **{"If-None-Match": "*"})[0] == 401


def test_pages_and_probes_are_not_kept(caller):
    for path in ("/runs", "/tokens", "/readyz"):
        status, headers, _ = exchange(caller.pages + path, **{"If-None-Match": "*"}, **bearer())
        assert (status, headers.get("cache-control"), "etag" in headers) == (200, "no-store", False)
