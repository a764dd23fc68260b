"""The rehearsal's own server: it stands in for every endpoint of a recipe, and fails a stated share of the calls.

    POST /v1/chat/completions   any model; the answer fits the request's schema
    GET  /v1/models
    POST /detect                {"image": …} -> {"detections": {class: [{"box", "score", "color"}]}}, as GenEval's

A call fails once: with an error of the server, or an answer that is no JSON where JSON was asked for. Its repetition
succeeds, so that the same rows come out whichever calls failed.
"""

import asyncio
import hashlib
import json
import random
import threading
from collections import Counter
from typing import Any

from aiohttp import web

from rubricworks.listening import listen, url_of
from rubricworks.llm.preflight import QUESTION
from rubricworks.rehearsal.scripted_answers import scripted_answer, sentence
from rubricworks.world.chat import ApiError, read_request, write_reply

FAILURES = 0.05
"""Share of the calls that fail the first time."""
_BODY_LIMIT = 256 * 2**20
_CLASSES = ("bench", "dog", "clock")
_COLOURS = ("red", "green", "blue")


class ScriptedServer:
    """Context manager of the server, in a thread of this process."""

    def __init__(self, failures: float = FAILURES) -> None:
        self._failures = failures
        self.calls: Counter[str] = Counter()
        """Kind of answer → calls; `failed` counts those that failed."""
        self._seen: set[bytes] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self.url = ""

    def __enter__(self) -> "ScriptedServer":
        self._socket = listen("127.0.0.1", 0)
        self.url = url_of(self._socket)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def address(self, kind: str) -> str:
        """URL for an endpoint: of a chat model, or of a detector."""
        return f"{self.url}/v1" if kind == "chat" else f"{self.url}/detect"

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/detect", self._detect)
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.SockSite(runner, self._socket).start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": []})

    async def _chat(self, request: web.Request) -> web.Response:
        content = await request.read()
        try:
            body = json.loads(content)
            asked = read_request(body)
        except (ValueError, ApiError) as error:
            return web.json_response({"error": {"message": str(error)}}, status=400)
        form = (body.get("response_format") or {}).get("json_schema") or {}
        name = str(form.get("name", "text"))
        self.calls[name] += 1
        digest = hashlib.sha256(content).digest()
        draw = random.Random(digest)
        fails = draw.random() < self._failures and digest not in self._seen and asked.prompt.strip() != "ping"
        self._seen.add(digest)
        if QUESTION in asked.prompt:
            return web.json_response(write_reply(asked, "I cannot name it."))
        if fails:
            self.calls["failed"] += 1
            if form and draw.random() < 0.5:
                return web.json_response(write_reply(asked, sentence(draw)))
            return web.json_response(
                {"error": {"message": "overloaded", "type": "server_error"}}, status=503, headers={"Retry-After": "0"}
            )
        return web.json_response(write_reply(asked, scripted_answer(asked, name, form.get("schema"), draw)))

    async def _detect(self, request: web.Request) -> web.Response:
        draw = random.Random(hashlib.sha256(await request.read()).digest())
        self.calls["detections"] += 1
        detections: dict[str, list[Any]] = {
            name: [
                {
                    "box": [at, at, at + 8, at + 8],
                    "score": round(draw.uniform(0.5, 1), 2),
                    "color": draw.choice(_COLOURS),
                }
                for at in range(draw.randint(0, 3))
            ]
            for name in _CLASSES
        }
        return web.json_response({"detections": detections})
