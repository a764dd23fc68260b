"""A chat server on loopback that says what a test tells it to, in a thread of its own."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Said:
    """One HTTP answer."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    delay: float = 0.0
    hold: Callable[[], bool] | None = None
    """Answer only once this is true, or after 20 seconds, so that a test fails instead of hanging."""
    cut: bool = False
    """Break the connection in the middle of the body."""
    reset: bool = False
    """Break it with a reset instead of a goodbye."""
    drip: float = 0.0
    """Seconds between two bytes of the body."""
    chunked: bool = False
    """Send the body without saying how long it is."""
    bare: bool = False
    """The body is all that is sent: no status line, no headers."""


@dataclass
class Heard:
    """One HTTP request."""

    path: str
    target: str
    """Path and query, as they were sent."""
    headers: dict[str, str]
    body: dict[str, Any]
    text: str
    at: float
    """By `time.monotonic`."""
    said: Said | None = None
    """What was answered."""


def say(
    text: str | None, *, finish: str = "stop", refusal: str | None = None, tokens: tuple[int, int] = (10, 5)
) -> Said:
    """A chat completion with this text."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    body = {"id": "c-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    return Said(json.dumps(body).encode())


def fail(status: int, text: str = "", **headers: str) -> Said:
    """An HTTP error; keyword `Retry_After` becomes the header `Retry-After`."""
    return Said(text.encode(), status, {name.replace("_", "-"): value for name, value in headers.items()})


class ScriptedServer:
    """Answers request n (from 0) with `script(n, body)`; a list is said in order, its last answer again and again."""

    def __init__(self, script: Callable[[int, dict[str, Any]], Said] | list[Said], port: int = 0) -> None:
        self.script = script
        self.heard: list[Heard] = []
        self.busiest = 0
        """Requests that were answered at the same time, at most."""
        self._busy = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._run(self._start(port))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[Heard]:
        return [heard for heard in self.heard if heard.path.endswith("/chat/completions")]

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=300)

    async def _start(self, port: int) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        await self._runner.cleanup()
        slow = asyncio.all_tasks() - {asyncio.current_task()}
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = json.loads(text) if text else {}
        heard = Heard(request.path, request.raw_path, dict(request.headers), body, text, time.monotonic())
        self.heard.append(heard)
        number = len(self.heard) - 1
        script = self.script
        said = heard.said = script(number, body) if callable(script) else script[min(number, len(script) - 1)]
        self._busy += 1
        self.busiest = max(self.busiest, self._busy)
        try:
            await asyncio.sleep(said.delay)
            if said.hold is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(_come_true(said.hold), 300)
        finally:
            self._busy -= 1
        if said.cut or said.reset or said.drip or said.chunked or said.bare:
            return await _misbehave(request, said)
        return web.Response(status=said.status, body=said.body, headers=said.headers)


async def _come_true(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - it may be about servers in other threads
        await asyncio.sleep(0.001)


async def _misbehave(request: web.Request, said: Said) -> web.StreamResponse:
    length = {} if said.chunked else {"Content-Length": str(len(said.body))}
    answer = web.StreamResponse(status=said.status, headers={**said.headers, **length})
    if said.bare:
        request.transport.write(said.body)
        request.transport.close()
        return answer
    await answer.prepare(request)
    with contextlib.suppress(ConnectionError):  # the client has had enough
        if said.drip:
            for byte in said.body:
                await answer.write(bytes([byte]))
                await asyncio.sleep(said.drip)
        elif said.cut or said.reset:
            await answer.write(said.body[: len(said.body) // 2])
            await asyncio.sleep(0.01)
            request.transport.abort() if said.reset else request.transport.close()
        else:
            await answer.write(said.body)
    return answer
