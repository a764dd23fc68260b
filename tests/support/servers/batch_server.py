"""OpenAI's files and batches on loopback: what is asked for, what comes back, and what goes wrong."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

from aiohttp import web

Outcome = dict[str, Any] | None
"""A row's `response` and `error` as in the output files; None leaves the row out, as an expired batch does."""


def answered(text: str, tokens: tuple[int, int] = (100, 10)) -> Outcome:
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "c-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
    return {"response": {"status_code": 200, "body": body}, "error": None}


def failed(status: int, message: str) -> Outcome:
    return {"response": {"status_code": status, "body": {"error": {"message": message}}}, "error": None}


class BatchServer:
    """`outcome(number of the batch, request body)` decides each row; output rows come in the reverse order."""

    def __init__(self, outcome: Callable[[int, dict[str, Any]], Outcome], *, looks: int = 1) -> None:
        """
        Args:
            looks: times that a batch is looked at before it is done.
        """
        self.outcome, self.looks = outcome, looks
        self.files: dict[str, str] = {}
        self.batches: list[dict[str, Any]] = []
        self.queries: set[str] = set()
        """Queries of the requests' URLs."""
        self.held = False
        """Keeps every batch in progress."""
        self._seen: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(20)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        @web.middleware
        async def note_query(request: web.Request, handler: Any) -> web.StreamResponse:
            self.queries.add(request.query_string)
            return await handler(request)

        app = web.Application(client_max_size=2**26, middlewares=[note_query])
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._retrieve)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        assert form["purpose"] == "batch"
        name = f"file-{len(self.files)}"
        self.files[name] = form["file"].file.read().decode()
        return web.json_response({"id": name, "object": "file", "bytes": 1, "created_at": 0, "filename": "r.jsonl",
                                  "purpose": "batch", "status": "processed"})  # fmt: skip

    async def _content(self, request: web.Request) -> web.Response:
        return web.Response(text=self.files[request.match_info["id"]])

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["endpoint"] == "/v1/chat/completions"
        batch = {
            "id": f"batch-{len(self.batches)}",
            "object": "batch",
            "created_at": 0,
            "status": "in_progress",
            **asked,
        }
        self.batches.append(batch)
        return web.json_response(batch)

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": self.batches[::-1], "has_more": False})

    async def _retrieve(self, request: web.Request) -> web.Response:
        number = int(request.match_info["id"].removeprefix("batch-"))
        batch = self.batches[number]
        self._seen[batch["id"]] = self._seen.get(batch["id"], 0) + 1
        if batch["status"] == "in_progress" and not self.held and self._seen[batch["id"]] > self.looks:
            self._finish(number, batch)
        return web.json_response(batch)

    def _finish(self, number: int, batch: dict[str, Any]) -> None:
        rows = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        outcomes = [(row["custom_id"], self.outcome(number, row["body"])) for row in rows]
        lines = [json.dumps({"id": "r", "custom_id": line, **outcome}) for line, outcome in outcomes[::-1] if outcome]
        good = [line for line in lines if '"status_code": 200' in line]
        bad = [line for line in lines if line not in good]
        for field, part in (("output_file_id", good), ("error_file_id", bad)):
            if part:
                batch[field] = f"file-{len(self.files)}"
                self.files[batch[field]] = "\n".join(part)
        batch["status"] = "completed" if all(outcome for _, outcome in outcomes) else "expired"
