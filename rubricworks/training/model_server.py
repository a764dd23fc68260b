"""A model directory behind OpenAI's chat protocol, on this machine, for programs that speak nothing else.

Requests that arrive while the model is busy make the next batch, together with those whose answers are long: none waits
for another to end. Decoding is greedy unless a request has a temperature; a batch of such requests ends as a whole.
For heavy traffic `vllm serve` is faster (`vllm_server`); this server needs no more than the model's own engine.
"""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from rubricworks.errors import UserError
from rubricworks.listening import listen, url_of
from rubricworks.training.continued_answers import Asked
from rubricworks.training.engine import GenerateEngine
from rubricworks.training.generate import decode_image
from rubricworks.training.processing import Messages

_BODY_LIMIT = 64 * 2**20
_MOST_TOKENS = 1024


class _Call(NamedTuple):
    asked: Asked
    words: int
    temperature: float
    seed: int
    done: "asyncio.Future[tuple[str, int]]"

    @property
    def kind(self) -> tuple[int, float, int] | None:
        """Sampled calls of one kind share a batch; None of greedy ones, which all do."""
        return (self.asked.limit, self.temperature, self.seed) if self.temperature else None

    def give(self, text: str, length: int) -> None:
        """Answer the request, from another thread than its own."""

        def finish() -> None:
            if not self.done.done():
                self.done.set_result((text, length))

        self.done.get_loop().call_soon_threadsafe(finish)


class ModelServer:
    """Chat completions of one engine, in batches."""

    def __init__(self, engine: GenerateEngine, name: str, *, batch_size: int) -> None:
        self._engine, self.name, self._batch_size = engine, name, batch_size
        self._waiting: asyncio.Queue[_Call] = asyncio.Queue()

    def app(self) -> web.Application:
        """The application: `/v1/models`, `/v1/chat/completions` and `/health`."""
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.cleanup_ctx.append(self._work)
        return app

    async def _work(self, app: web.Application) -> Any:
        worker = asyncio.create_task(self._answer_batches())
        yield
        worker.cancel()

    async def _answer_batches(self) -> None:
        begun: list[_Call] = []
        while True:
            calls = begun or [await self._waiting.get()]
            while len(calls) < self._batch_size and not self._waiting.empty():
                calls.append(self._waiting.get_nowait())
            begun = []
            for kind in dict.fromkeys(call.kind for call in calls):
                batch = [call for call in calls if call.kind == kind and not call.done.done()]
                if not batch:
                    continue
                try:
                    answers = await asyncio.to_thread(self._continue if kind is None else self._sample, batch)
                except Exception as error:  # one bad batch must not end the server
                    for call in batch:
                        if not call.done.done():
                            call.done.set_exception(error)
                    continue
                begun += [
                    call._replace(asked=call.asked._replace(tokens=tokens))
                    for call, tokens in zip(batch, answers, strict=True)
                    if tokens is not None
                ]

    def _continue(self, batch: list[_Call]) -> list[tuple[int, ...] | None]:
        def give(number: int, text: str, length: int) -> None:
            batch[number].give(text, length)

        return self._engine.continue_answers([call.asked for call in batch], lambda: not self._waiting.empty(), give)

    def _sample(self, batch: list[_Call]) -> list[tuple[int, ...] | None]:
        texts = self._engine(
            [call.asked.image for call in batch],
            [call.asked.prompt for call in batch],
            max_new_tokens=batch[0].asked.limit,
            temperature=batch[0].temperature,
            seed=batch[0].seed,
        )
        for call, (text, length) in zip(batch, texts, strict=True):
            call.give(text, length)
        return [None] * len(batch)

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.name, "object": "model"}]})

    async def _complete(self, request: web.Request) -> web.Response:
        try:
            body = json.loads(await request.read())
            image, prompt, words = await asyncio.to_thread(_content, body["messages"])
            limit = int(body.get("max_completion_tokens") or body.get("max_tokens") or _MOST_TOKENS)
            sampling = (float(body.get("temperature") or 0.0), int(body.get("seed") or 0))
        except (ValueError, KeyError, TypeError, OSError) as error:
            message = {"message": f"cannot read the request: {error}", "type": "invalid_request_error"}
            return web.json_response({"error": message}, status=400)
        call = _Call(Asked(image, prompt, limit), words, *sampling, asyncio.get_running_loop().create_future())
        await self._waiting.put(call)
        try:
            text, tokens = await call.done
        except Exception as error:
            message = {"message": f"{type(error).__name__}: {error}", "type": "server_error"}
            return web.json_response({"error": message}, status=500)
        ending = "length" if tokens >= limit else "stop"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": ending}
        usage = {"prompt_tokens": call.words, "completion_tokens": tokens}
        usage["total_tokens"] = sum(usage.values())
        answer = {"id": "chat", "object": "chat.completion", "created": int(time.time()), "model": self.name}
        return web.json_response({**answer, "choices": [choice], "usage": usage})


def _content(messages: list[dict[str, Any]]) -> tuple[bytes | None, str | Messages, int]:
    """Image and prompt of a request, with the number of words.

    The prompt is the request's text, or a conversation: of several turns without an image, or of several images.

    Raises:
        ValueError: an image is no data URL.
        OSError: one of several images cannot be decoded.
    """
    images: list[bytes] = []
    turns: Messages = []
    parts_in_order: list[dict[str, Any]] = []
    for message in messages:
        content = message.get("content") or ""
        parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = []
        for part in parts:
            if part["type"] == "text":
                texts.append(part["text"])
                parts_in_order.append({"type": "text", "text": part["text"]})
            else:
                url = part["image_url"]["url"]
                if not url.startswith("data:image/") or "," not in url:
                    raise ValueError("images must be data URLs (data:image/png;base64,…); this server fetches nothing")
                images.append(base64.b64decode(url.partition(",")[2], validate=True))
                parts_in_order.append({"type": "image", "image": images[-1]})
        turns.append({"role": str(message.get("role", "user")), "content": "\n".join(text for text in texts if text)})
    text = "\n".join(turn["content"] for turn in turns if turn["content"])
    words = len(text.split())
    if len(images) > 1:
        for part in parts_in_order:
            if part["type"] == "image":
                part["image"] = decode_image(part["image"])
        return None, [{"role": "user", "content": parts_in_order}], words
    if images or len(turns) == 1:
        return (images[0] if images else None), text, words
    return None, turns, words


class ServedModel(NamedTuple):
    """A server in this process."""

    url: str
    """Base URL."""
    load: Callable[[str | Path], None]
    """Answer as another model."""


@contextmanager
def served_model(
    folder: str | Path,
    *,
    name: str | None = None,
    batch_size: int = 16,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Iterator["ServedModel"]:
    """Serve a model directory in a thread. The model is unloaded at the end.

    Args:
        name: name of the model in requests; by default the folder's.
    Raises:
        UserError: the model cannot be loaded.
    """
    engine = GenerateEngine(folder, batch_size)
    ready: threading.Event = threading.Event()
    loop = asyncio.new_event_loop()
    address: list[str] = []
    failure: list[OSError] = []

    async def start() -> web.AppRunner:
        runner = web.AppRunner(ModelServer(engine, name or Path(folder).name, batch_size=batch_size).app())
        await runner.setup()
        listening = listen(host, port)
        await web.SockSite(runner, listening).start()
        address.append(f"{url_of(listening)}/v1")
        return runner

    def work() -> None:
        asyncio.set_event_loop(loop)
        try:
            runner = loop.run_until_complete(start())
        except OSError as error:
            failure.append(error)
            return
        finally:
            ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=work, name="model-server", daemon=True)
    thread.start()
    ready.wait()
    try:
        if failure:
            raise UserError(f"cannot serve {folder} at {host}:{port}: {failure[0].strerror}")
        yield ServedModel(address[0], engine.load)
    finally:
        if not failure:
            loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        engine.close()
