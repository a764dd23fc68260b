"""Calls by the Batch API: matched by id, failed rows sent again and never answers, batches waited for after a kill."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from batch_server import BatchServer, answered, failed
from scripted_server import fail

from rubricworks.data.tables import read_rows
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.recipe.files import load_recipe, recipe_path
from rubricworks.rubrics import ErrorClass
from rubricworks.runtime.launch import launch
from rubricworks.world.scene.export import export_scenes


@pytest.fixture(autouse=True)
def _quick_batches(monkeypatch):
    monkeypatch.setattr("rubricworks.llm.batches._QUIET_S", 0.1)


@pytest.fixture
def batches():
    servers = []

    def start(outcome, **options) -> BatchServer:
        servers.append(BatchServer(outcome, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def question_of(body: dict) -> str:
    return body["messages"][0]["content"]


@pytest.fixture(autouse=True)
def _short_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rubricworks.llm.batches.POLL_S", 0.05)


def ask(endpoint: Endpoint, questions: list[str], cache: Path | None = None) -> list:
    async def run() -> list:
        async with ChatClient(endpoint, cache=cache) as client:
            calls = (client.chat([{"role": "user", "content": question}]) for question in questions)
            return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(run())


def endpoint_of(server: BatchServer, **fields: object) -> Endpoint:
    return Endpoint(url=server.url, model="m", batch=True, **fields)


def test_each_call_gets_the_row_of_its_id_in_one_batch_at_half_the_price(batches, tmp_path):
    server = batches(lambda _, body: answered(f"re: {question_of(body)}"))
    endpoint = endpoint_of(server, prices=(1.0, 10.0))
    questions = [f"question {number}" for number in range(20)]
    replies = ask(endpoint, [*questions, questions[0]], tmp_path / "cache.sqlite")
    assert [reply.raw for reply in replies] == [f"re: {question}" for question in [*questions, questions[0]]]
    assert len(server.batches) == 1
    assert len(server.files[server.batches[0]["input_file_id"]].splitlines()) == 20
    assert replies[0].usage.cost == pytest.approx((100 * 1.0 + 10 * 10.0) / 1e6 / 2)
    # The cache of a run is shared with calls that are not batched.
    plain = Endpoint(url="http://127.0.0.1:9/v1", model="m")
    assert ask(plain, questions[:1], tmp_path / "cache.sqlite")[0].cached


def test_a_query_of_the_url_goes_with_the_requests_of_a_batch(batches):
    server = batches(lambda _, body: answered(question_of(body)))
    endpoint = Endpoint(url=f"{server.url}?api-version=2024-10-21", model="m", batch=True)
    assert [reply.value for reply in ask(endpoint, ["q"])] == ["q"]
    assert {query.partition("&")[0] for query in server.queries} == {"api-version=2024-10-21"}


def test_a_row_that_a_filter_declined_or_the_server_ended_early_is_no_answer(batches):
    """As in Azure's batches, whose rows have Azure's errors."""

    def outcome(_: int, body: dict):
        text = question_of(body)
        row = answered(text)
        if text == "filtered":
            error = {"code": "content_filter", "message": "filtered", "innererror": {}}
            return {"response": {"status_code": 400, "body": {"error": error}}, "error": None}
        if text == "empty":
            row["response"]["body"]["choices"][0]["message"]["content"] = ""
        row["response"]["body"]["choices"][0]["finish_reason"] = {"unknown": "OTHER", "failed": "error"}.get(
            text, "stop"
        )
        return row

    server = batches(outcome)
    good, *errors = ask(endpoint_of(server), ["good", "filtered", "unknown", "failed", "empty"])
    assert good.value == "good"
    classes = [error.error_class for error in errors]
    assert classes == [ErrorClass.REFUSED, ErrorClass.TRANSPORT, ErrorClass.TRANSPORT, ErrorClass.MALFORMED]
    assert [error.attempts for error in errors] == [1, 1, 3, 1]
    assert all(error.raw for error in errors)


def test_failed_rows_are_sent_again_and_fail_as_calls_never_as_answers(batches):
    def outcome(number: int, body: dict):
        text = question_of(body)
        if text == "lost" or (text == "late" and number == 0):
            return None
        if text == "busy" and number < 2:
            return failed(429, "too many")
        return failed(400, "no such parameter") if text == "wrong" else answered(text)

    server = batches(outcome)
    replies = ask(endpoint_of(server), ["fine", "late", "busy", "wrong", "lost"])
    assert [reply.raw for reply in replies[:3]] == ["fine", "late", "busy"]
    assert all(isinstance(reply, ChatError) for reply in replies[3:])
    assert (replies[3].status, "no such parameter" in str(replies[3])) == (400, True)
    assert "expired without this row" in str(replies[4])
    rows = [len(server.files[batch["input_file_id"]].splitlines()) for batch in server.batches]
    assert rows == [5, 3, 2], "what is answered or refused for good is not sent again"


def test_a_failed_row_hides_the_key_and_a_good_one_keeps_a_word_that_is_the_key(batches, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "a fox and a box")

    def outcome(_: int, body: dict):
        text = question_of(body)
        return failed(400, f"the key {text} is wrong") if body["seed"] else answered(text)

    async def run():
        async with ChatClient(endpoint_of(batches(outcome), api_key_env="JUDGE_KEY")) as client:
            calls = (client.chat([{"role": "user", "content": "a fox and a box"}], seed=seed) for seed in (0, 1))
            return await asyncio.gather(*calls, return_exceptions=True)

    good, bad = asyncio.run(run())
    assert good.value == "a fox and a box"
    assert "the key *** is wrong" in bad.message
    assert "the key *** is wrong" in bad.raw


def test_refused_key_and_server_without_batches_fail_the_calls(serve):
    for status in (401, 404):
        endpoint = Endpoint(url=serve([fail(status, "no")]).url, model="m", batch=True)
        replies = ask(endpoint, ["one", "two"])
        assert [(type(reply), reply.status) for reply in replies] == [(ChatError, status)] * 2


def test_policy_is_not_trained_by_a_judge_in_batches():
    with pytest.raises(UserError, match=r"policy\.reward\.judge\.batch: a step of training waits"):
        load_recipe(recipe_path("quickstart"), ["policy.reward.judge.batch=true"])
    recipe = load_recipe(recipe_path("quickstart"), ["rubric.writer.batch=true"])
    assert [field for field, endpoint in recipe.endpoints() if endpoint.batch] == ["rubric.writer"]


_ASK = """
import asyncio, sys
from pathlib import Path
from rubricworks.llm import ChatClient, Endpoint
async def run():
    endpoint = Endpoint(url=sys.argv[1], model="m", batch=True)
    async with ChatClient(endpoint, cache=Path(sys.argv[2])) as c:
        calls = [c.chat([{"role": "user", "content": f"q{n}"}]) for n in range(5)]
        print([reply.raw for reply in await asyncio.gather(*calls)])
asyncio.run(run())
"""


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [True, False], ids=["after it was recorded", "before it was recorded"])
def test_run_that_is_killed_between_submit_and_fetch_waits_for_the_same_batch(batches, tmp_path, recorded):
    server = batches(lambda _, body: answered(f"re: {question_of(body)}"))
    server.held = True
    cache = tmp_path / "cache.sqlite"
    process = subprocess.Popen([sys.executable, "-c", _ASK, server.url, str(cache)])
    deadline = time.monotonic() + 300
    while not list((tmp_path / "batches").glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(server.batches) == 1
    if not recorded:
        for path in (tmp_path / "batches").glob("*.json"):
            path.unlink()
    server.held = False
    replies = ask(endpoint_of(server), [f"q{number}" for number in range(5)], cache)
    assert [reply.raw for reply in replies] == [f"re: q{number}" for number in range(5)]
    assert len(server.batches) == 1


def test_recaptioning_by_batches_writes_captions_and_dead_letters(batches, tmp_path):
    export_scenes(tmp_path / "scenes", seed=3, count=4)
    texts = iter(range(100))
    server = batches(lambda _, body: answered("a caption") if next(texts) else failed(400, "unsafe"))
    endpoint = endpoint_of(server).model_dump(mode="json")
    config = {"sources": [str(tmp_path / "scenes" / "images")], "captioners": [{"endpoint": endpoint}]}
    table = Path(launch("recaption", json.dumps(config), str(tmp_path / "run"), {}))
    assert len(server.batches) == 1
    assert [row["caption"] for row in read_rows(table)] == ["a caption"] * 3
    assert ["unsafe" in row["message"] for row in read_rows(table / "dead_letters")] == [True]
