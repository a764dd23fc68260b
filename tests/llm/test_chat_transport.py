"""Retries, redirects, keys, concurrency and event loops, against real servers on loopback."""

import asyncio
import json
import logging
import pickle
import socket
import threading
import time

import pytest
import stamina
from pydantic import ValidationError
from scripted_server import Said, fail, say

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint, check_endpoint
from rubricworks.rubrics import ErrorClass

ASK = [{"role": "user", "content": "hello"}]
SECRET = "sk-rubric-0123456789abcdef"


def ask(url, attempts=8, **options):
    async def run():
        async with ChatClient(Endpoint(url=url, model="m", **options), attempts=attempts) as client:
            try:
                return await client.chat(ASK), client.totals
            finally:
                assert client.totals.calls == 1

    return asyncio.run(run())


def failed(url, **options) -> ChatError:
    with pytest.raises(ChatError) as caught:
        ask(url, **options)
    return caught.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    "first", [fail(500), fail(503), fail(429, Retry_After="0"), fail(408), say("x", finish="stop")]
)
@pytest.mark.usefixtures("quick_retries")
def test_a_passing_fault_is_retried(serve, first):
    if first.status == 200:
        first.cut = True
    server = serve([first, first, say("good")])
    reply, totals = ask(server.url)
    assert reply.value == "good"
    assert totals.requests == len(server.chats) == 3


def test_a_refused_connection_is_retried_until_the_server_is_up(serve):
    port = free_port()
    starter = threading.Timer(0.4, lambda: serve([say("good")], port=port))
    starter.start()
    reply, totals = ask(f"http://127.0.0.1:{port}/v1")
    starter.join()
    assert reply.value == "good"
    assert totals.requests >= 2


@pytest.mark.usefixtures("quick_retries")
def test_a_slow_server_is_asked_again_after_the_timeout(serve):
    slow = say("late")
    slow.delay = 1.0
    server = serve([slow, say("good")])
    reply, _ = ask(server.url, timeout_s=0.2)
    assert reply.value == "good"
    assert "no answer within 0.1 s" in failed(serve([slow]).url, timeout_s=0.1).message


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("first", [fail(500, "starting"), fail(503), fail(429, Retry_After="0")])
def test_one_error_while_a_server_starts_does_not_refuse_a_run(serve, first):
    server = serve(lambda number, body: first if number == 0 else say("pong") if body else fail(404))
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="m")))
    pings = iter([first])
    server = serve(lambda number, body: next(pings, say("pong")) if body else fail(404))
    asyncio.run(check_endpoint(Endpoint(url=server.url, model="m")))
    assert len(server.chats) == 2
    with pytest.raises(UserError, match="HTTP 500"):
        asyncio.run(check_endpoint(Endpoint(url=serve([fail(500)]).url, model="m")))


def test_retry_after_is_waited_for(serve):
    times = []

    def script(number, _):
        times.append(time.monotonic())
        return fail(429, Retry_After="1") if number == 0 else say("good")

    ask(serve(script).url)
    assert times[1] - times[0] >= 1.0


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_other_client_errors_are_final(serve, status):
    server = serve([fail(status, '{"error": {"message": "no such model"}}')])
    error = failed(server.url)
    assert error.error_class is ErrorClass.TRANSPORT
    assert f"HTTP {status}" in error.message
    assert "no such model" in error.message
    assert len(server.chats) == error.attempts == 1


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize(
    "answer",
    [
        fail(500, "<html>oops</html>"),
        Said(b"<html>not an API</html>"),
        Said(b'{"choices": []}'),
        Said(b'{"choices": [{"message": {"content": 3}}]}'),
        Said(b'{"choices": [{"message": "x"}]}'),
        Said(b'{"choices": {"0": 1}}'),
        Said(b"[1, 2]"),
        Said(b'{"choices": [{"mess'),
        Said(b"\xff\xfe"),
        Said(b""),
    ],
)
def test_what_stays_broken_ends_as_a_transport_error(serve, answer):
    server = serve([answer])
    error = failed(server.url)
    assert error.error_class is ErrorClass.TRANSPORT
    assert error.attempts == len(server.chats) == 3
    assert error.raw == answer.body.decode("utf-8", "replace")


@pytest.mark.usefixtures("quick_retries")
def test_a_dead_server_is_named_with_its_model():
    url = f"http://127.0.0.1:{free_port()}/v1"
    error = failed(url)
    assert error.error_class is ErrorClass.TRANSPORT
    assert f"m at {url}: cannot connect" in error.message
    assert error.attempts == 3


def test_the_number_of_attempts_is_the_clients(serve):
    server = serve([fail(503)])
    stamina.set_testing(True, attempts=100, cap=True)
    try:
        assert failed(server.url, attempts=2).attempts == 2
    finally:
        stamina.set_testing(False)


def test_a_redirect_is_refused_and_the_key_not_sent_on(serve, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    other = serve([say("stolen")])
    local = serve([fail(307, Location=f"{other.url}/chat/completions")])
    error = failed(local.url, api_key_env="JUDGE_KEY")
    assert "redirects are refused" in error.message
    assert (len(local.heard), len(other.heard)) == (1, 0)


def test_the_api_key_is_sent_and_found_nowhere_else(serve, monkeypatch, caplog, capfd, tmp_path):
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    caplog.set_level(logging.DEBUG)
    stamina.set_testing(True, attempts=2, cap=True)

    def script(number, body):
        request = f"you sent Bearer {SECRET}"
        return {
            "error": fail(500, request),
            "denied": fail(401, json.dumps({"error": {"message": f"wrong key {SECRET}"}})),
            "echo": say(request),
        }[body["messages"][0]["content"]]

    server = serve(script)
    endpoint = Endpoint(url=server.url, model="m", api_key_env="JUDGE_KEY")
    client = ChatClient(endpoint, cache=tmp_path / "cache.sqlite", purpose="judge")
    traces = [repr(client), repr(endpoint), endpoint.model_dump_json(), str(vars(endpoint))]

    async def run():
        async with client:
            for kind in ("error", "denied"):
                try:
                    await client.chat([{"role": "user", "content": kind}])
                except ChatError as error:
                    traces.extend([repr(error), error.message, error.raw, pickle.dumps(vars(error)).decode("latin1")])
                    traces.append(repr(error.__cause__) + repr(error.__context__))
            reply = await client.chat([{"role": "user", "content": "echo"}])
            traces.extend([repr(reply), repr(client.totals)])

    try:
        asyncio.run(run())
    finally:
        stamina.set_testing(False)
    assert {request.headers["Authorization"] for request in server.chats} == {f"Bearer {SECRET}"}
    traces += [caplog.text, *[str(vars(record)) for record in caplog.records], *capfd.readouterr()]
    traces += [path.read_bytes().decode("latin1") for path in tmp_path.iterdir()]
    assert len(traces) > 10
    assert not [trace for trace in traces if SECRET in trace]


@pytest.mark.parametrize("key", ["x", "fox", "a fox and a box"])
def test_a_key_that_is_a_word_of_a_good_answer_stays_in_it(serve, monkeypatch, tmp_path, key):
    monkeypatch.setenv("JUDGE_KEY", key)
    text = "A fox, and a fox and a box, and a box."
    endpoint = Endpoint(url=serve([say(text)]).url, model="m", api_key_env="JUDGE_KEY")

    async def run():
        async with ChatClient(endpoint, cache=tmp_path / "cache.sqlite") as client:
            replies = [await client.chat(ASK) for _ in range(2)]
            return [(reply.value, reply.raw, reply.cached) for reply in replies]

    assert asyncio.run(run()) == [(text, text, False), (text, text, True)]


@pytest.mark.parametrize(("key", "shown"), [("x", "x"), ("a fox and a box", "***")])
@pytest.mark.usefixtures("quick_retries")
def test_failures_hide_keys_of_12_characters_and_more(serve, monkeypatch, key, shown):
    monkeypatch.setenv("JUDGE_KEY", key)
    message = f"the key {key} is wrong"
    body = json.dumps({"error": {"message": message, "code": 400}}).encode()
    for answer in (Said(body, 400), Said(body), say("", refusal=message)):
        failure = failed(serve([answer]).url, api_key_env="JUDGE_KEY")
        assert f"the key {shown} is wrong" in failure.message
        assert f"the key {shown} is wrong" in failure.raw


def test_a_missing_variable_is_named_on_connecting_not_before(monkeypatch):
    monkeypatch.delenv("NO_SUCH_JUDGE", raising=False)
    for options in ({"url": "${NO_SUCH_JUDGE}/v1"}, {"url": "http://127.0.0.1:1", "api_key_env": "NO_SUCH_JUDGE"}):
        client = ChatClient(Endpoint(model="m", **options))
        with pytest.raises(UserError, match="NO_SUCH_JUDGE is not set"):
            asyncio.run(client.chat(ASK))


def test_a_url_is_filled_in_from_the_environment(serve, monkeypatch):
    server = serve([say("good")])
    monkeypatch.setenv("JUDGE_HOST", f"127.0.0.1:{server.port}")
    assert ask("http://${JUDGE_HOST}/v1/")[0].value == "good"
    assert ask("http://${JUDGE_HOST}")[0].value == "good"
    assert {request.path for request in server.heard} == {"/v1/chat/completions"}


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/v1", "http://user:word@host/v1", ""])
def test_an_endpoint_that_cannot_be_one_is_refused_when_it_is_written(url):
    with pytest.raises(ValidationError, match="url"):
        Endpoint(url=url, model="m")


def test_no_more_requests_are_in_flight_than_the_endpoint_allows(serve):
    answer = say("good")
    answer.delay = 0.02
    server = serve([answer])

    async def run():
        async with ChatClient(Endpoint(url=server.url, model="m", concurrency=3)) as client:
            await asyncio.gather(*(client.chat(ASK, seed=seed) for seed in range(12)))

    asyncio.run(run())
    assert server.busiest == 3


def test_one_client_serves_several_event_loops_at_once_and_one_after_another(serve):
    server = serve([say("good")])
    client = ChatClient(server.url, "m")
    for _ in range(2):
        assert asyncio.run(client.chat(ASK)).value == "good"

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def run():
        other = asyncio.run_coroutine_threadsafe(client.chat(ASK), loop)
        replies = await asyncio.gather(asyncio.wrap_future(other), client.chat(ASK))
        assert [reply.value for reply in replies] == ["good", "good"]
        await client.close()

    asyncio.run(run())
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert client.totals.calls == 4


MODELS = json.dumps({"object": "list", "data": [{"id": "judge"}, {"id": "models/gem"}]}).encode()


def check(serve, models: Said, chat: Said, model: str) -> None:
    server = serve(lambda _, body: chat if body else models)
    asyncio.run(check_endpoint(Endpoint(url=server.url, model=model, api_key_env=None)))


@pytest.mark.parametrize("model", ["judge", "gem"])
def test_preflight_passes_a_model_that_is_listed_without_asking_it(serve, model):
    check(serve, Said(MODELS), fail(500), model)


@pytest.mark.parametrize("models", [Said(MODELS), fail(404), fail(500), Said(b"not json")])
def test_preflight_passes_a_model_that_answers_though_it_is_not_listed(serve, models):
    check(serve, models, say("pong"), "local-folder")


def test_preflight_names_the_endpoint_what_is_served_and_the_command_that_shows_it(serve):
    with pytest.raises(UserError) as caught:
        check(serve, Said(MODELS), fail(404, "model not found"), "jugde")
    for part in ("jugde at http://127.0.0.1", "judge", "model not found", 'curl -sS "http://127.0.0.1', '/v1/models"'):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_preflight_of_a_dead_endpoint_says_so_at_once(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", SECRET)
    endpoint = Endpoint(url=f"http://127.0.0.1:{free_port()}", model="judge", api_key_env="JUDGE_KEY")
    with pytest.raises(UserError, match="cannot connect") as caught:
        asyncio.run(check_endpoint(endpoint))
    assert '/v1/models" -H "Authorization: Bearer $JUDGE_KEY"' in str(caught.value)
    assert SECRET not in str(caught.value)
