"""One answer to one question: servers that send more than they were asked for, and bodies that break the protocol."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from certificates import tls_contexts
from yarl import URL

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.llm.http.exchange import HttpExchange
from rubricworks.rubrics import ErrorClass

pytestmark = pytest.mark.usefixtures("quick_retries")

Answer = Callable[["Question"], "AsyncIterator[bytes | float]"]


class Question:
    """A question as the server reads it, and the head of its request."""

    def __init__(self, text: str, target: str, headers: dict[str, str]) -> None:
        self.text, self.target, self.headers = text, target, headers
        self.request_id = headers.get("x-request-id", "")


def answer(text: str, *, header: str = "", completion_id: str = "c-1") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = json.dumps({"id": completion_id, "object": "chat.completion", "choices": [choice]}).encode()
    repeated = f"X-Request-Id: {header}\r\n" if header else ""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{repeated}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def raw_server(script: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that sends for each question what the script yields: bytes, or seconds to wait."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                question = Question(body["messages"][0]["content"], first.split()[1], headers)
                async for piece in script(question):
                    if isinstance(piece, float):
                        await asyncio.sleep(piece)
                    else:
                        writer.write(piece)
                        await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def ask_in_turn(script: Answer, questions: int, *, pause: float = 0.0, attempts: int = 8, **options) -> list[str]:
    async def run() -> list[str]:
        async with (
            raw_server(script) as url,
            ChatClient(Endpoint(url=url, model="m", **options), attempts=attempts) as client,
        ):
            values = []
            for number in range(questions):
                reply = await client.chat([{"role": "user", "content": f"q{number}"}])
                values.append(reply.value)
                await asyncio.sleep(pause)
            return values

    return asyncio.run(run())


def own_answers(questions: int) -> list[str]:
    return [f"answer to q{number}" for number in range(questions)]


@pytest.mark.parametrize("gap", [None, 0.0, 0.02])
def test_stray_answer_on_a_kept_connection_is_no_answer_to_the_next_question(gap):
    async def script(question: Question):
        own, stray = answer(f"answer to {question.text}"), answer("STRAY")
        if question.text != "q1":
            yield own
        elif gap is None:
            yield own + stray
        else:
            yield own
            yield gap
            yield stray

    assert ask_in_turn(script, 4, pause=0.05) == own_answers(4)


def test_stray_answer_that_the_loop_has_not_read_is_none():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve_with_stray_answers, args=(listening,), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"

        async def run() -> list[str]:
            async with ChatClient(Endpoint(url=url, model="m")) as client:
                values = []
                for number in range(3):
                    values.append((await client.chat([{"role": "user", "content": f"q{number}"}])).value)
                    time.sleep(0.3)  # noqa: ASYNC251 the loop is busy while the stray answer comes
                return values

        assert asyncio.run(run()) == own_answers(3)


def serve_with_stray_answers(listening: socket.socket) -> None:
    """Answer each question by its own, and a moment later by a stray one."""

    def converse(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            while head := b"".join(iter(lines.readline, b"\r\n")):
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                text = json.loads(lines.read(length))["messages"][0]["content"]
                connection.sendall(answer(f"answer to {text}"))
                time.sleep(0.1)
                connection.sendall(answer("STRAY"))

    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=converse, args=(listening.accept()[0],), daemon=True).start()


@pytest.mark.parametrize("place", ["header", "completion_id"])
def test_stray_answer_after_the_next_question_is_matched_by_number(place):
    earlier: list[str] = []

    async def script(question: Question):
        form = "{}" if place == "header" else "chatcmpl-{}"
        if question.text == "q2" and len(earlier) == 2:  # the answer to q1 once more, before that to q2
            yield answer("answer to q1", **{place: form.format(earlier[-1])})
        earlier.append(question.request_id)
        yield answer(f"answer to {question.text}", **{place: form.format(question.request_id)})

    assert ask_in_turn(script, 4) == own_answers(4)


@pytest.mark.parametrize("place", ["header", "completion_id"])
def test_answer_that_a_gateways_cache_repeats_to_the_same_question_is_read(place):
    """With the number of the request that it was made for, as of a gateway before vLLM."""
    cache: dict[str, bytes] = {}

    async def script(question: Question):
        number = question.request_id if place == "header" else f"chatcmpl-{question.request_id}"
        yield cache.setdefault(question.text, answer(f"answer to {question.text}", **{place: number}))

    async def run() -> list[str]:
        async with raw_server(script) as url, ChatClient(Endpoint(url=url, model="m")) as client:
            return [(await client.chat([{"role": "user", "content": text}])).value for text in ("a", "b", "a", "a")]

    assert asyncio.run(run()) == ["answer to a", "answer to b", "answer to a", "answer to a"]


def test_cached_answer_to_another_question_is_refused_with_its_raw_text():
    cached: list[bytes] = []

    async def script(question: Question):
        cached.append(answer(f"answer to {question.text}", completion_id=f"chatcmpl-{question.request_id}"))
        yield cached[0]

    with pytest.raises(ChatError, match="the server answered another request") as caught:
        ask_in_turn(script, 2)
    assert "answer to q0" in caught.value.raw


@pytest.mark.parametrize("cut", ["timeout", "close"])
def test_what_had_come_of_an_answer_is_in_the_error_without_the_key(monkeypatch, cut):
    monkeypatch.setenv("JUDGE_KEY", "sk-0123456789")

    async def script(question: Question):
        yield b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"error": "sk-0123456789 is'
        if cut == "close":
            yield 0.05
            raise ConnectionError
        yield 5.0

    with pytest.raises(ChatError) as caught:
        ask_in_turn(script, 1, attempts=1, timeout_s=0.3, api_key_env="JUDGE_KEY")
    assert caught.value.raw == '{"error": "*** is'


@pytest.mark.parametrize(("keep_alive_s", "connections"), [(15.0, 1), (0.0, 3)])
def test_connection_that_lay_idle_for_too_long_is_not_used_again(monkeypatch, keep_alive_s, connections):
    monkeypatch.setattr("rubricworks.llm.http.exchange._KEEP_ALIVE_S", keep_alive_s)
    used: set[asyncio.Task | None] = set()

    async def script(question: Question):
        used.add(asyncio.current_task())
        yield answer(f"answer to {question.text}")

    assert ask_in_turn(script, 3) == own_answers(3)
    assert len(used) == connections


def test_a_server_of_one_thread_is_not_kept_by_a_connection_that_lies_idle(monkeypatch):
    monkeypatch.setattr("rubricworks.llm.http.exchange._KEEP_ALIVE_S", 0.3)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    async def ask(url):
        http = HttpExchange({}, proxy_of=lambda _: None, connect_timeout_s=5)
        calls = [http.ask("POST", URL(url), b"{}", f"request-{n}") for n in range(3)]
        try:
            return [answer.body for answer in await asyncio.wait_for(asyncio.gather(*calls), 20)]
        finally:
            await http.close()

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            assert asyncio.run(ask(f"http://127.0.0.1:{server.server_port}/")) == [b"ok"] * 3
        finally:
            server.shutdown()


def test_early_hints_before_an_answer_are_no_answer():
    async def script(question: Question):
        yield b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
        yield 0.02
        yield answer(f"answer to {question.text}")

    assert ask_in_turn(script, 3) == own_answers(3)


def test_body_that_ends_with_its_connection_is_whole():
    """As a server of HTTP/1.0 sends it."""

    async def script(question: Question):
        head, _, body = answer(f"answer to {question.text}").partition(b"\r\n\r\n")
        yield head.split(b"\r\n")[0] + b"\r\nConnection: close\r\n\r\n" + body[:20]
        yield 0.02
        yield body[20:]
        raise ConnectionError

    assert ask_in_turn(script, 2) == own_answers(2)


@pytest.mark.parametrize("chunked", [False, True])
def test_answer_larger_than_any_model_writes_is_refused_once(chunked):
    sent: list[str] = []

    async def script(question: Question):
        sent.append(question.text)
        form = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 99999999"
        yield b"HTTP/1.1 200 OK\r\n" + form + b"\r\n\r\n"
        for _ in range(100):
            yield (b"100000\r\n" if chunked else b"") + b"x" * 2**20 + (b"\r\n" if chunked else b"")

    with pytest.raises(ChatError, match="the answer is larger than 8 MiB"):
        ask_in_turn(script, 1)
    assert len(sent) == 1


def test_question_that_is_refused_before_it_is_read_leaves_nothing_for_the_next():
    """The rest of a large body may still be on its way when the answer to it comes."""
    sizes: list[int] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        sizes.append(length)
        if length > 2**20:
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        else:
            await reader.readexactly(length)
            writer.write(answer("good"))
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            await asyncio.sleep(0.5)
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(converse, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with ChatClient(Endpoint(url=url, model="m")) as client:
            with pytest.raises(ChatError, match="HTTP 413"):
                await client.chat([{"role": "user", "content": "x" * 2**25}])
            assert (await client.chat([{"role": "user", "content": "small"}])).value == "good"
            assert client.totals.requests == 2
        server.close()

    asyncio.run(run())
    assert len(sizes) == 2


def test_proxy_gets_the_whole_url_and_its_credentials_with_every_question(monkeypatch):
    questions: list[Question] = []

    async def script(question: Question):
        questions.append(question)
        yield answer(f"answer to {question.text}")

    async def run() -> list[str]:
        async with raw_server(script) as proxy:
            host = proxy.removeprefix("http://").removesuffix("/v1")
            monkeypatch.setenv("http_proxy", f"http://user:word@{host}")
            monkeypatch.setenv("no_proxy", "")
            async with ChatClient(Endpoint(url="http://judge.test:8000/v1", model="m")) as client:
                return [(await client.chat([{"role": "user", "content": f"q{n}"}])).value for n in range(3)]

    assert asyncio.run(run()) == own_answers(3)
    assert {question.target for question in questions} == {"http://judge.test:8000/v1/chat/completions"}
    assert {question.headers["host"] for question in questions} == {"judge.test:8000"}
    assert {question.headers["proxy-authorization"] for question in questions} == {"Basic dXNlcjp3b3Jk"}


def test_tls_goes_through_a_proxys_tunnel_which_does_not_see_the_key(monkeypatch, tmp_path):
    for_server, for_client = tls_contexts(tmp_path, "judge.test")
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", for_client)
    monkeypatch.setenv("JUDGE_KEY", "sk-0123456789")
    heads: list[str] = []
    seen = bytearray()

    async def script(question: Question):
        assert question.headers["authorization"] == "Bearer sk-0123456789"
        assert question.target == "/v1/chat/completions"
        yield answer(f"answer to {question.text}")

    async def run() -> list[str]:
        async with raw_server(script, tls=for_server) as url:
            port = url.removesuffix("/v1").rsplit(":", 1)[1]

            async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                to_server = await asyncio.open_connection("127.0.0.1", int(port))
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                await asyncio.gather(forward(reader, to_server[1]), forward(to_server[0], writer))

            async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while data := await source.read(2**16):
                    seen.extend(data)
                    target.write(data)
                target.close()

            proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
            monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
            monkeypatch.setenv("no_proxy", "")
            endpoint = Endpoint(url=f"https://judge.test:{port}/v1", model="m", api_key_env="JUDGE_KEY")
            async with ChatClient(endpoint) as client:
                values = [(await client.chat([{"role": "user", "content": f"q{n}"}])).value for n in range(3)]
            proxy.close()
            return values

    assert asyncio.run(run()) == own_answers(3)
    assert [head.split("\r\n")[0].split()[0] for head in heads] == ["CONNECT"]
    assert len(seen) > 1000
    assert b"sk-0123456789" not in bytes(seen) + heads[0].encode()


def test_key_with_a_line_break_inside_is_refused_and_not_shown(serve, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-0123\nX-Other: 4567")
    with pytest.raises(UserError, match="JUDGE_KEY") as caught:
        asyncio.run(
            ChatClient(Endpoint(url=serve([]).url, model="m", api_key_env="JUDGE_KEY")).chat([{"role": "user"}])
        )
    assert "sk-0123" not in str(caught.value)


def test_requests_have_different_numbers_and_a_connection_without_surplus_is_kept():
    numbers: list[str] = []
    connections: set[int] = set()

    async def script(question: Question):
        numbers.append(question.request_id)
        connections.add(id(asyncio.current_task()))
        yield answer(f"answer to {question.text}")

    assert ask_in_turn(script, 5) == own_answers(5)
    assert len(set(numbers)) == 5
    assert len(connections) == 1


@pytest.mark.parametrize("chunk", [b"zzzz\r\n", b"-5\r\nabc", b"f" * 20 + b"\r\nabc", b"5\r\nhelloXX\r\n"])
def test_nonsense_chunk_is_an_error_at_once_and_not_a_wait_for_the_timeout(chunk):
    async def script(question: Question):
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield 0.02  # the headers have been read
        yield chunk
        yield 30.0

    with pytest.raises(ChatError) as caught:
        ask_in_turn(script, 1, attempts=2, timeout_s=15.0)
    assert caught.value.error_class is ErrorClass.TRANSPORT
    assert "no answer within" not in caught.value.message
