"""A judge that answers at once, or after a while: every criterion of a request is met, or always the same words.

It runs in a process of its own, so that the CPU time of a benchmark is the client's alone, and its answers are made
beforehand, so that the client is what a benchmark waits for.
"""

import asyncio
import json
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def canned_judge(*, says: str | None = None, delay_s: float = 0.0, core: int | None = None) -> Iterator[str]:
    """The base URL of a running judge.

    Args:
        says: the text of every answer; None for a verdict on each criterion that the request lists.
        delay_s: how long each answer is held back.
        core: the processor core that it stays on; None leaves that to the system.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, says, delay_s, core), daemon=True)
    process.start()
    sender.close()
    try:
        yield f"http://127.0.0.1:{receiver.recv()}/v1"
    finally:
        process.terminate()
        process.join()


class _Judge(asyncio.Protocol):
    """Just enough HTTP/1.1: reads a request by its Content-Length and writes the answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, says: str | None, delay_s: float) -> None:
        self._loop = loop
        self._delay_s = delay_s
        self._same = None if says is None else _response(says, 70)
        self._parts: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._missing -= len(data)
        while self._missing <= 0 and self._parts:
            body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            end = body.find(b"\r\n\r\n")
            if end < 0:
                self._parts = [body]
                return
            head = body[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            whole = end + 4 + length
            if len(body) < whole:
                self._parts, self._missing = [body], whole - len(body)
                return
            self._answer(body[:whole])
            self._parts = [body[whole:]] if len(body) > whole else []

    def _answer(self, request: bytes) -> None:
        answer = self._same or _verdicts(request.count(b'evaluation_rule\\"'))
        if self._delay_s:
            self._loop.call_later(self._delay_s, self._transport.write, answer)
        else:
            self._transport.write(answer)


@cache
def _verdicts(criteria: int) -> bytes:
    verdict = {"reasoning": "The caption states a red circle at the top left, as the rule asks.", "score": 1}
    text = json.dumps({"verdicts": [{"id": number, **verdict} for number in range(1, criteria + 1)]})
    return _response(text, 25 * criteria)


@cache
def _response(text: str, tokens: int) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": tokens, "total_tokens": 900 + tokens}
    frame = {"id": "canned", "object": "chat.completion", "created": 1_790_000_000, "model": "judge"}
    body = json.dumps(frame | {"choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _serve(sender, says: str | None, delay_s: float, core: int | None) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Judge(loop, says, delay_s), "127.0.0.1", 0, backlog=1024)
        sender.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    if core is not None:
        os.sched_setaffinity(0, {core})
    asyncio.run(run())
