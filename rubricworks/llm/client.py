"""A chat client for one model: typed answers, repair turns, cache, totals.

    async with ChatClient("http://localhost:8000/v1", "Qwen/Qwen2.5-7B-Instruct", cache=Path("a.sqlite")) as client:
        reply = await client.chat([{"role": "user", "content": "…"}], response=Judgment)

It may be called from any event loop, also from several at once (TRL awaits rewards on a loop of its own).
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar, overload

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from rubricworks.errors import UserError
from rubricworks.llm import telemetry
from rubricworks.llm.answers import Answer
from rubricworks.llm.cache import AnswerCache
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.limiter import Limiter
from rubricworks.llm.question import REPAIR_TURNS, ChatError, Messages, Question, Reply, T
from rubricworks.llm.request import BYTES_PER_TOKEN, Request, RequestFrame
from rubricworks.llm.spending import BudgetReached, Spending
from rubricworks.llm.transport import Transport
from rubricworks.llm.usage import Totals, Usage
from rubricworks.rubrics import ErrorClass

Model = TypeVar("Model", bound=BaseModel)
OnFailure = Callable[[ChatError, "ChatClient"], None]
_NOTHING = Usage()


class ChatClient:
    """Asks one model. Close it, or use it as an async context manager, to let go of sockets and the cache's file."""

    def __init__(
        self,
        endpoint: Endpoint | str,
        model: str | None = None,
        *,
        cache: Path | None = None,
        purpose: str = "",
        spending: Spending | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        """
        Args:
            endpoint: an `Endpoint`, or the URL of one.
            model: the model's name there; needed with a URL.
            cache: SQLite file in which answers are kept between runs; clients and processes may share it.
            purpose: what the calls are for, in error messages and the ledger ("judge", "writer", …).
            spending: the run's ledger and budget; a call that does not fit fails with the class budget.
            on_failure: told of every call that failed, before its error is raised; may raise another one instead.
        """
        if isinstance(endpoint, str):
            if model is None:
                raise UserError(f"{purpose or 'chat client'}: no model named for the endpoint {endpoint}; name one")
            endpoint = Endpoint(url=endpoint, model=model)
        self.endpoint = endpoint.with_model(model)
        self.purpose = purpose
        self.totals = Totals()
        self._transport = Transport(self.endpoint)
        self._cache = AnswerCache(Path(cache)) if cache is not None else None
        self._spending = spending
        if spending is not None:
            spending.open_account(purpose, self.endpoint.model, self.totals)
        self._on_failure = on_failure
        self._frames: dict[type[BaseModel] | None, RequestFrame] = {}
        self._span = telemetry.span_maker(self.endpoint, purpose)
        telemetry.watch(self)

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint.label!r}, purpose={self.purpose!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def limiter(self) -> Limiter:
        """Shared by all clients of this endpoint and model."""
        return self._transport.limiter

    async def close(self) -> None:
        await self._transport.close()
        if self._cache is not None:
            await asyncio.to_thread(self._cache.close)

    @overload
    async def chat(self, messages: Messages, response: None = None, seed: int = 0) -> Reply[str]: ...

    @overload
    async def chat(
        self, messages: Messages, response: type[Model], seed: int = 0, *, check: Callable[[Model], None] | None = None
    ) -> Reply[Model]: ...

    @overload
    async def chat(self, messages: Messages, response: Callable[[str], T], seed: int = 0) -> Reply[T]: ...

    async def chat(
        self,
        messages: Messages,
        response: type[Any] | Callable[[str], Any] | None = None,
        seed: int = 0,
        *,
        check: Callable[[Any], None] | None = None,
    ) -> Reply[Any]:
        """Ask once; the answer comes from the cache if this was asked before.

        Args:
            messages: OpenAI's message dictionaries; `image_part` and `text_part` make their parts.
            response: the pydantic model that the answer must fit, or a function that reads it from the text and raises
                ValueError for one that it cannot use; None for plain text.
            seed: sent to the server, and tells repeated samples of one question apart.
            check: raises ValueError for a value that fits the model but not the question; counts as malformed.
        Raises:
            ChatError: no usable answer after retries and repair turns, or no budget for it.
            UserError: the endpoint's environment, the cache file or the ledger is not usable.
        """
        schema = response if isinstance(response, type) else None
        frame = self._frames.get(schema)
        if frame is None:
            frame = self._frames[schema] = RequestFrame(self.endpoint, schema)
        question = Question(frame, messages, seed, response, check)
        request = frame.encode(messages, seed)
        ask = self._ask if self._span is None else self._ask_in_span
        if self._cache is None:
            return await ask(question, request)

        key = request.key
        if (known := self._recall(key, question)) is not None:
            return known
        flying = self._transport.connections.lane().flying
        if (waiting := flying.get(key)) is not None:
            first = asyncio.get_running_loop().create_future()
            waiting.append(first)
            await first
            if (known := self._recall(key, question)) is not None:
                return known
        waiting = flying[key] = []
        try:
            reply = await ask(question, request)
            usage = reply.usage
            entry = to_json([reply.raw, usage.prompt_tokens, usage.completion_tokens, usage.cost])
            self._cache.put(key, self.endpoint.model, entry.decode())
        finally:
            for other in waiting:
                if not other.done():
                    other.set_result(None)
            if flying.get(key) is waiting:
                del flying[key]
        return reply

    def _recall(self, key: bytes, question: Question) -> Reply[Any] | None:
        assert self._cache is not None
        if (kept := self._cache.get(key)) is None:
            return None
        raw, prompt_tokens, completion_tokens, cost = from_json(kept)
        try:
            value = question.value(raw)
        except ValueError:
            return None
        self.totals.count_cached()
        return Reply(value, raw, Usage(prompt_tokens, completion_tokens, cost), cached=True)

    async def _ask_in_span(self, question: Question, request: Request) -> Reply[Any]:
        assert self._span is not None
        with self._span() as span:
            reply = await self._ask(question, request)
            telemetry.tell(span, reply.usage)
            return reply

    async def _ask(self, question: Question, request: Request) -> Reply[Any]:
        """One answer over the network, with repair turns."""
        usage, requests, started, spending = _NOTHING, 0, time.perf_counter(), self._spending
        capped = spending is not None and spending.capped
        body, repairs_left = request.body, REPAIR_TURNS if question.response is not None else 0
        try:
            while True:
                if capped:
                    tokens = request.tokens + (len(body) - len(request.body)) // BYTES_PER_TOKEN
                    dollars = self.endpoint.cost(tokens, self.endpoint.max_tokens)
                    tokens += self.endpoint.max_tokens
                    if not spending.reserve_at_once(tokens, dollars):
                        await self._wait_for_budget(tokens, dollars, requests)
                turn = _NOTHING
                try:
                    delivery = await self._transport.complete(body)
                    turn = self._usage(delivery.answer, request)
                finally:
                    if capped:  # now, not when the call ends: its own next turn would wait for it
                        spending.settle(tokens, dollars, turn)
                requests += delivery.requests
                usage = usage.plus(turn)
                text = self._usable_text(delivery.answer, requests)
                try:
                    value = question.value(text)
                    break
                except ValueError as error:
                    if not repairs_left:
                        raise self._error(ErrorClass.MALFORMED, str(error), text or "", requests) from None
                    repairs_left -= 1
                    body = question.repaired(text or "", str(error))
        except ChatError as error:
            if error.error_class is ErrorClass.TRANSPORT:
                error.attempts = requests = requests + error.attempts
            error.request = request.key.hex()
            self.totals.count(usage, requests, time.perf_counter() - started, error.error_class)
            if self._on_failure is not None:
                self._on_failure(error, self)
            raise
        else:
            self.totals.count(usage, requests, time.perf_counter() - started)
        finally:
            if spending is not None:
                spending.note()
        return Reply(value, text or "", usage, cached=False)

    async def _wait_for_budget(self, tokens: int, dollars: float, requests: int) -> None:
        assert self._spending is not None
        try:
            await self._spending.reserve(tokens, dollars)
        except BudgetReached as error:
            raise self._error(ErrorClass.BUDGET, str(error), "", requests) from None

    def _usable_text(self, answer: Answer, requests: int) -> str | None:
        if answer.refusal or answer.finish == "content_filter":
            message = f"the model declined: {answer.refusal or 'content filter'}"
            raise self._error(ErrorClass.REFUSED, message, answer.refusal or answer.text or "", requests)
        if answer.finish == "length":
            limit = self.endpoint.max_tokens
            message = f"the answer ran into the limit of {limit} tokens; raise max_tokens"
            raise self._error(ErrorClass.TRUNCATED, message, answer.text or "", requests)
        return answer.text

    def _usage(self, answer: Answer, request: Request) -> Usage:
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        if not prompt and not completion:
            prompt, completion = request.tokens, len(answer.text or "") // BYTES_PER_TOKEN
        return Usage(prompt, completion, self.endpoint.cost(prompt, completion))

    def _error(self, error_class: ErrorClass, message: str, raw: str, attempts: int) -> ChatError:
        who = f"{self.purpose} {self.endpoint.label}" if self.purpose else self.endpoint.label
        return ChatError(error_class, f"{who}: {message}", raw, attempts)
