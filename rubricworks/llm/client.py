"""A chat client for one model: typed answers, repair turns, cache, totals.

    async with ChatClient("http://localhost:8000/v1", "Qwen/Qwen2.5-7B-Instruct", cache=Path("a.sqlite")) as client:
        reply = await client.chat([{"role": "user", "content": "…"}], response=Judgment)

It may be called from any event loop, also from several at once (TRL awaits rewards on a loop of its own).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from rubricworks.errors import UserError
from rubricworks.llm.answers import Answer, parse_json
from rubricworks.llm.cache import AnswerCache
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.errors import ChatError
from rubricworks.llm.request import RequestFrame
from rubricworks.llm.transport import Transport
from rubricworks.llm.usage import Totals, Usage
from rubricworks.rubrics import ErrorClass

T = TypeVar("T")
Model = TypeVar("Model", bound=BaseModel)
Messages = Sequence[dict[str, Any]]

_REPAIR_TURNS = 2
_SHOWN_BACK = 20_000
"""Characters of a malformed answer that a repair turn shows the model."""


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """A good answer."""

    value: T
    """The validated value, or the text when no response model was given."""
    raw: str
    usage: Usage
    """Of the call that first got this answer, also when it comes from the cache."""
    cached: bool


class ChatClient:
    """Asks one model. Close it, or use it as an async context manager, to let go of sockets and the cache's file."""

    def __init__(
        self, endpoint: Endpoint | str, model: str | None = None, *, cache: Path | None = None, purpose: str = ""
    ) -> None:
        """
        Args:
            endpoint: an `Endpoint`, or the URL of one.
            model: the model's name there; needed with a URL.
            cache: SQLite file in which answers are kept between runs; clients and processes may share it.
            purpose: what the calls are for, in error messages ("judge", "writer", …).
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
        self._frames: dict[type[BaseModel] | None, RequestFrame] = {}

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint.label!r}, purpose={self.purpose!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()
        if self._cache is not None:
            await asyncio.to_thread(self._cache.close)

    @overload
    async def chat(self, messages: Messages, response: None = None, seed: int = 0) -> Reply[str]: ...

    @overload
    async def chat(
        self,
        messages: Messages,
        response: type[Model],
        seed: int = 0,
        *,
        check: Callable[[Model], None] | None = None,
    ) -> Reply[Model]: ...

    async def chat(
        self,
        messages: Messages,
        response: type[Any] | None = None,
        seed: int = 0,
        *,
        check: Callable[[Any], None] | None = None,
    ) -> Reply[Any]:
        """Ask once; the answer comes from the cache if this was asked before.

        Args:
            messages: OpenAI's message dictionaries; `image_part` and `text_part` make their parts.
            response: the pydantic model that the answer must fit; None for plain text.
            seed: sent to the server, and tells repeated samples of one question apart.
            check: raises ValueError for a value that fits the model but not the question; counts as malformed.
        Raises:
            ChatError: no usable answer after retries and repair turns.
            UserError: the endpoint's environment or the cache file is not usable.
        """
        frame = self._frames.get(response)
        if frame is None:
            frame = self._frames[response] = RequestFrame(self.endpoint, response)
        body = frame.body(messages, seed)
        if self._cache is None:
            return await self._ask(frame, messages, body, response, seed, check)

        key = frame.key(body, seed)
        flying = self._transport.lane().flying
        if (known := self._recall(key, response, check)) is not None:
            return known
        if (first := flying.get(key)) is not None:
            await first.wait()
            if (known := self._recall(key, response, check)) is not None:
                return known
        landed = flying[key] = asyncio.Event()
        try:
            reply = await self._ask(frame, messages, body, response, seed, check)
            usage = reply.usage
            entry = to_json([reply.raw, usage.prompt_tokens, usage.completion_tokens, usage.cost])
            self._cache.put(key, entry.decode())
        finally:
            landed.set()
            if flying.get(key) is landed:
                del flying[key]
        return reply

    def _recall(self, key: bytes, response: type[Any] | None, check: Callable[[Any], None] | None) -> Reply[Any] | None:
        assert self._cache is not None
        if (kept := self._cache.get(key)) is None:
            return None
        raw, prompt_tokens, completion_tokens, cost = from_json(kept)
        try:
            value = _value(raw, response, check)
        except ValueError:
            return None
        self.totals.count_cached()
        return Reply(value, raw, Usage(prompt_tokens, completion_tokens, cost), cached=True)

    async def _ask(
        self,
        frame: RequestFrame,
        messages: Messages,
        body: bytes,
        response: type[Any] | None,
        seed: int,
        check: Callable[[Any], None] | None,
    ) -> Reply[Any]:
        """One answer over the network, with repair turns."""
        usage, requests, started = Usage(), 0, time.perf_counter()
        repairs_left = _REPAIR_TURNS if response is not None else 0
        try:
            while True:
                answer, sent = await self._transport.complete(body)
                requests += sent
                usage += self._usage(answer)
                text = self._usable_text(answer, requests)
                try:
                    value = _value(text, response, check)
                    break
                except ValueError as error:
                    if not repairs_left:
                        raise self._error(ErrorClass.MALFORMED, str(error), text or "", requests) from None
                    repairs_left -= 1
                    body = frame.body([*messages, *_repair_turn(text or "", str(error))], seed)
        except ChatError as error:
            if error.error_class is ErrorClass.TRANSPORT:
                error.attempts = requests = requests + error.attempts
            self.totals.count(usage, requests, time.perf_counter() - started, error.error_class)
            raise
        self.totals.count(usage, requests, time.perf_counter() - started)
        return Reply(value, text or "", usage, cached=False)

    def _usable_text(self, answer: Answer, requests: int) -> str | None:
        if answer.refusal or answer.finish == "content_filter":
            message = f"the model declined: {answer.refusal or 'content filter'}"
            raise self._error(ErrorClass.REFUSED, message, answer.refusal or answer.text or "", requests)
        if answer.finish == "length":
            limit = self.endpoint.max_tokens
            message = f"the answer ran into the limit of {limit} tokens; raise max_tokens"
            raise self._error(ErrorClass.TRUNCATED, message, answer.text or "", requests)
        return answer.text

    def _usage(self, answer: Answer) -> Usage:
        cost = self.endpoint.cost(answer.prompt_tokens, answer.completion_tokens)
        return Usage(answer.prompt_tokens, answer.completion_tokens, cost)

    def _error(self, error_class: ErrorClass, message: str, raw: str, attempts: int) -> ChatError:
        who = f"{self.purpose} {self.endpoint.label}" if self.purpose else self.endpoint.label
        return ChatError(error_class, f"{who}: {message}", raw, attempts)


def _value(text: str | None, response: type[Any] | None, check: Callable[[Any], None] | None) -> Any:
    """Raises ValueError when the text does not hold what was asked for."""
    if text is None:
        raise ValueError("the answer is empty")
    if response is None:
        return text
    value = parse_json(text, response)
    if check is not None:
        check(value)
    return value


def _repair_turn(text: str, error: str) -> list[dict[str, Any]]:
    """The model's own answer and what is wrong with it."""
    complaint = f"That answer cannot be used: {error}. Answer again, with nothing but the JSON object asked for."
    return [{"role": "assistant", "content": text[:_SHOWN_BACK]}, {"role": "user", "content": complaint}]
