"""A judge that answers at once: every criterion of a request is met.

It runs in a process of its own, so that the CPU time of a benchmark is the client's alone.
"""

import asyncio
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def canned_judge() -> Iterator[str]:
    """The base URL of a running judge."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{receiver.recv()}/v1"
    finally:
        process.terminate()
        process.join()


class _Judge(asyncio.Protocol):
    """Just enough HTTP/1.1: reads a request by its Content-Length and writes the answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._heard = b""

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while (end := self._heard.find(b"\r\n\r\n")) >= 0:
            head, start = self._heard[:end].lower(), end + 4
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            if len(self._heard) < start + length:
                return
            body, self._heard = self._heard[start : start + length], self._heard[start + length :]
            self._transport.write(_answer(body.count(b'evaluation_rule\\"')))


@cache
def _answer(criteria: int) -> bytes:
    verdict = {"reasoning": "The caption states a red circle at the top left, as the rule asks.", "score": 1}
    text = json.dumps({"verdicts": [{"id": number, **verdict} for number in range(1, criteria + 1)]})
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 900, "completion_tokens": 25 * criteria, "total_tokens": 900 + 25 * criteria}
    body = json.dumps({"id": "canned", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _serve(sender) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(_Judge, "127.0.0.1", 0)
        sender.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())
