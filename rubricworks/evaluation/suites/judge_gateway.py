"""The recipe's judge behind OpenAI's protocol on loopback, for benchmark programs that ask a judge themselves.

Such a program counts a failed judge as a wrong answer, or guesses a letter. Here all of its calls go through the run's
client, with its key, retries, cache and budget, and the first call that fails, or is answered with what the program
would misread, ends the task. Temperature and limits are the recipe's, not the program's.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Literal

from aiohttp import web

from rubricworks.listening import listen, url_of
from rubricworks.llm import ChatClient

JudgeForm = Literal["score", "extraction", "letter", "verdict"]
"""Form of a judge's answer: a number from 0 to 1, the final answer, the option's letter, or 1 or 0."""

_BODY_LIMIT = 64 * 2**20
_FORMS: dict[JudgeForm, tuple[re.Pattern[str], str]] = {
    "score": (re.compile(r"(0(\.\d+)?|1(\.0+)?)(\s.*)?", re.DOTALL), "a number from 0 to 1"),
    "extraction": (re.compile(r".*\S.*", re.DOTALL), "the final answer"),
    "letter": (re.compile(r"[^A-Za-z]*[A-E][^A-Za-z]*"), "one letter from A to E"),
    "verdict": (re.compile(r"[01]"), "1 or 0"),
}
"""Form → what the program reads without a guess, and its words."""


class JudgeGateway:
    """One judge for one task: its address, its calls, and the failure that ended the task."""

    def __init__(self, client: ChatClient, form: JudgeForm) -> None:
        self._client, self._form = client, form
        self._secret = secrets.token_urlsafe(16)
        self.url = ""
        self.calls = 0
        self.failure: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        """Error of the first call that failed."""

    def variables(self) -> dict[str, str]:
        """Environment variables that tell lmms-eval's tasks where the judge is."""
        model = self._client.endpoint.model
        if self._form == "verdict":
            names = {"USE_LLM_JUDGE": "True", "JUDGE_API_KEY": self._secret, "JUDGE_MODEL_NAME": model}
            return names | {"JUDGE_BASE_URL": self.url}
        # MMBench posts to the variable's very address; the other tasks take it as a base.
        url = f"{self.url}/chat/completions" if self._form == "letter" else self.url
        return {"API_TYPE": "openai", "OPENAI_API_URL": url, "MODEL_VERSION": model}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_post(f"/{self._secret}/v1/chat/completions", self._complete)
        return app

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["JudgeGateway"]:
        """Listen on loopback for the time of a task."""
        runner = web.AppRunner(self.app())
        await runner.setup()
        listening = listen("127.0.0.1", 0)
        self.url = f"{url_of(listening)}/{self._secret}/v1"
        try:
            await web.SockSite(runner, listening).start()
            yield self
        finally:
            await runner.cleanup()

    async def watch(self, program: Coroutine[Any, Any, int]) -> int:
        """Exit status of a program, which is ended when its judge fails.

        Raises:
            ChatError: the judge failed.
            Exception: the run cannot go on, for instance because its budget is spent.
        """
        task = asyncio.ensure_future(program)
        either: tuple[asyncio.Future[Any], ...] = (task, self.failure)
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self.failure.done():
                raise self.failure.result()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _complete(self, request: web.Request) -> web.Response:
        try:
            messages = json.loads(await request.read())["messages"]
        except (ValueError, KeyError, TypeError) as error:
            return web.json_response({"error": {"message": f"cannot read the request: {error!r}"}}, status=400)
        self.calls += 1
        try:
            reply = await self._client.chat(messages, self._read)
        except Exception as error:
            if not self.failure.done():
                self.failure.set_result(error)
            return web.json_response({"error": {"message": "the judge failed"}}, status=400)
        choice = {"index": 0, "message": {"role": "assistant", "content": reply.value}, "finish_reason": "stop"}
        tokens = (reply.usage.prompt_tokens, reply.usage.completion_tokens)
        usage = dict(zip(("prompt_tokens", "completion_tokens"), tokens, strict=True)) | {"total_tokens": sum(tokens)}
        answer = {"id": "judge", "object": "chat.completion", "created": int(time.time())}
        return web.json_response(answer | {"model": self._client.endpoint.model, "choices": [choice], "usage": usage})

    def _read(self, text: str) -> str:
        """The text as the program reads it.

        Raises:
            ValueError: the program would misread it.
        """
        pattern, words = _FORMS[self._form]
        if not pattern.fullmatch(text.strip()):
            raise ValueError(f"answer with {words} and nothing else")
        return text.strip()
