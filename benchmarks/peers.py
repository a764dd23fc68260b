"""Clients of the grading benchmark: ours, and others that send the same requests."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from benchmarks.questions import ANSWER, Judgment, text_messages
from benchmarks.rounds import Call, Lap
from rubricworks.llm import Budget, ChatClient, Endpoint, Spending

Messages = Callable[[int], list[dict[str, Any]]]
MODEL = "judge"
AUTORUBRIC = "autorubric==1.6.1"


@asynccontextmanager
async def open_client(folder: Path, url: str, concurrency: int) -> AsyncIterator[ChatClient]:
    """A client with all that it does: a new cache file, limiter, and a ledger under a budget."""
    endpoint = Endpoint(url=url, model=MODEL, concurrency=concurrency)
    spending = Spending(folder / "spending.sqlite", "benchmark", Budget(tokens=10**15))
    async with ChatClient(endpoint, cache=folder / "cache.sqlite", spending=spending) as client:
        yield client
    spending.close()


@asynccontextmanager
async def rubricworks_client(url: str, messages: Messages, concurrency: int = 32) -> AsyncIterator[Call]:
    """`ChatClient.chat`, with validation of the answer."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_client(Path(folder), url, concurrency) as client:

            async def call(number: int) -> None:
                await client.chat(messages(number), Judgment)

            yield call


@asynccontextmanager
async def raw_aiohttp(url: str, body: dict[str, Any], messages: Messages) -> AsyncIterator[Call]:
    """A request and its JSON, as anybody writes it with aiohttp."""
    address = f"{url}/chat/completions"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(number: int) -> None:
            async with session.post(address, json={**body, "messages": messages(number)}) as answer:
                await answer.json()

        yield call


@asynccontextmanager
async def lean_aiohttp(url: str, body: dict[str, Any], messages: Messages) -> AsyncIterator[Call]:
    """The least that aiohttp can do: the same bytes each time, and the answer's bytes as they come."""
    address = URL(f"{url}/chat/completions")
    data = json.dumps({**body, "messages": messages(0)}).encode()
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session:

        async def call(number: int) -> None:
            async with session.post(address, data=data) as answer:
                await answer.read()

        yield call


@asynccontextmanager
async def openai_sdk(url: str, body: dict[str, Any], messages: Messages, *, over_aiohttp: bool) -> AsyncIterator[Call]:
    """The SDK with its defaults, over httpx or over aiohttp."""
    from openai import AsyncOpenAI, DefaultAioHttpClient

    transport = {"http_client": DefaultAioHttpClient()} if over_aiohttp else {}
    async with AsyncOpenAI(base_url=url, api_key="none", **transport) as client:

        async def call(number: int) -> None:
            await client.chat.completions.create(**{**body, "messages": messages(number)})

        yield call


async def rubricworks_body() -> dict[str, Any]:
    """The JSON that `ChatClient` sends, but for its messages: the others send the same."""
    bodies: list[dict[str, Any]] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        choice = {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with rubricworks_client(f"http://127.0.0.1:{runner.addresses[0][1]}/v1", text_messages) as call:
            await call(0)
    finally:
        await runner.cleanup()
    return {name: value for name, value in bodies[0].items() if name != "messages"}


class Autorubric:
    """autorubric in a process of its own: it needs an environment that is not ours, for what it brings."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    @asynccontextmanager
    async def started(cls, python: str, **setting: object) -> AsyncIterator["Autorubric"]:
        """`setting` is what `grade_by_autorubric` reads in its first line."""
        script = Path(__file__).with_name("grade_by_autorubric.py").resolve()
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            with log.open("wb") as errors:
                process = await asyncio.create_subprocess_exec(
                    *(python, "-P", script),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=folder,
                    env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},  # else it asks the network for prices
                )
            peer = cls(process, log)
            try:
                await peer._tell(json.dumps(setting))
                yield peer
            finally:
                process.kill()
                await process.wait()

    async def lap(self, responses: int, criteria: int) -> Lap:
        took = await self._tell(str(responses))
        return Lap(responses * criteria, took["seconds"], took["cpu_seconds"])

    async def _tell(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        answer = await self._process.stdout.readline()
        if not answer:
            last_words = self._log.read_text().strip().splitlines()[-1:] or ["it ended without a word"]
            raise RuntimeError(last_words[0])
        return json.loads(answer)


def autorubric_python(*, install: bool) -> str | None:
    """The interpreter of the environment that is kept for autorubric, made if asked for; None where there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    environment = cache / "rubricworks" / AUTORUBRIC.replace("==", "-")
    python = environment / "bin" / "python"
    done = environment / "installed"
    if install and not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, AUTORUBRIC], check=True)
        done.touch()
    return str(python) if done.exists() else None
