"""One answer to one question: servers that send more than they were asked for, and bodies that break the protocol."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.rubrics import ErrorClass

pytestmark = pytest.mark.usefixtures("quick_retries")

Answer = Callable[["Question"], "AsyncIterator[bytes | float]"]


class Question:
    """A question as the server reads it, and the number of its request."""

    def __init__(self, text: str, request_id: str) -> None:
        self.text, self.request_id = text, request_id


def answer(text: str, *, header: str = "", completion_id: str = "c-1") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = json.dumps({"id": completion_id, "object": "chat.completion", "choices": [choice]}).encode()
    repeated = f"X-Request-Id: {header}\r\n" if header else ""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{repeated}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def raw_server(script: Answer) -> AsyncIterator[str]:
    """A server that sends for each question what the script yields: bytes, or seconds to wait."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                question = Question(body["messages"][0]["content"], headers.get("x-request-id", ""))
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

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def ask_in_turn(script: Answer, questions: int, *, pause: float = 0.0, **options) -> list[str]:
    async def run() -> list[str]:
        async with raw_server(script) as url, ChatClient(Endpoint(url=url, model="m", **options)) as client:
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


@pytest.mark.parametrize("place", ["header", "completion_id"])
def test_stray_answer_that_comes_after_the_next_question_was_sent_is_told_by_its_number(place):
    earlier: list[str] = []

    async def script(question: Question):
        form = "{}" if place == "header" else "chatcmpl-{}"
        if question.text == "q2" and len(earlier) == 2:  # the answer to q1 once more, before that to q2
            yield answer("answer to q1", **{place: form.format(earlier[-1])})
        earlier.append(question.request_id)
        yield answer(f"answer to {question.text}", **{place: form.format(question.request_id)})

    assert ask_in_turn(script, 4) == own_answers(4)


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
