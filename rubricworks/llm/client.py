"""Chat client for one model: typed answers, repair turns, cache, totals.

    async with ChatClient("http://localhost:8000/v1", "Qwen/Qwen2.5-7B-Instruct", cache=Path("a.sqlite")) as client:
        reply = await client.chat([{"role": "user", "content": "…"}], response=Judgment)

It can be called from any event loop, and from several at once (TRL awaits rewards on its own loop).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from pickle import PicklingError
from typing import Any, Self, TypeVar, overload

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from rubricworks.errors import UserError
from rubricworks.llm import telemetry
from rubricworks.llm.answers import Answer
from rubricworks.llm.answers.endings import Ending
from rubricworks.llm.batches import STATE_FOLDER, BatchTransport
from rubricworks.llm.cache import AnswerCache
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http.connections import MAX_RAW, raw_text
from rubricworks.llm.identity import Identity, IdentityPin, PinnedEntry
from rubricworks.llm.limiter import Limiter
from rubricworks.llm.logprobs import REQUEST_FIELDS, field_probabilities
from rubricworks.llm.question import REPAIR_TURNS, ChatError, Messages, NoLogprobs, Question, Reply, T
from rubricworks.llm.request import BYTES_PER_TOKEN, Request, RequestFrame
from rubricworks.llm.spending import BudgetReached, Spending
from rubricworks.llm.transport import ATTEMPTS, PATIENCE_S, Transport
from rubricworks.llm.usage import Totals, Usage
from rubricworks.rubrics import ErrorClass

Model = TypeVar("Model", bound=BaseModel)
OnFailure = Callable[[ChatError, "ChatClient"], None]
_NO_USAGE = Usage()
_log = logging.getLogger(__name__)
_LIMITS = ("max_tokens", "max_completion_tokens")


class ChatClient:
    """Client for one model. Close it, or use it as an async context manager, to release sockets and the cache file."""

    def __init__(
        self,
        endpoint: Endpoint | str,
        model: str | None = None,
        *,
        cache: Path | None = None,
        purpose: str = "",
        spending: Spending | None = None,
        on_failure: OnFailure | None = None,
        attempts: int = ATTEMPTS,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """
        Args:
            endpoint: an `Endpoint`, or its URL.
            model: name of the model; required with a URL.
            cache: SQLite file that keeps answers between runs; clients and processes may share it.
            purpose: purpose of the calls in error messages and the ledger ("judge", "writer", …).
            spending: the run's ledger and budget; a call beyond the budget fails with the class budget.
            on_failure: callback for every failed call, before its error is raised; may raise another error instead.
            attempts: attempts of one request when the server is unreachable or fails; a 429 is no failure.
            patience_s: time in which the server may answer only 429 before calls fail.
        """
        if isinstance(endpoint, str):
            if model is None:
                raise UserError(f"{purpose or 'chat client'}: no model named for the endpoint {endpoint}; name one")
            endpoint = Endpoint(url=endpoint, model=model)
        self.endpoint = endpoint if model is None else endpoint.model_copy(update={"model": model})
        self.purpose = purpose
        self.totals = Totals()
        state = Path(cache).parent / STATE_FOLDER if cache is not None else None
        self._retries = {"attempts": attempts, "patience_s": patience_s}
        self._transport = (
            BatchTransport(self.endpoint, state, patience_s)
            if self.endpoint.batch
            else Transport(self.endpoint, attempts, patience_s)
        )
        self._cache_file = cache
        self._cache = AnswerCache(Path(cache)) if cache is not None else None
        self._identity = IdentityPin(self.endpoint, purpose, Path(cache).parent if cache is not None else None)
        self._spending = spending
        if spending is not None:
            spending.open_account(purpose, self.endpoint.model, self.totals)
        self._on_failure = on_failure
        self._tells_estimate = False
        """True once the log says that tokens are estimated."""
        self._frames: dict[tuple[type[BaseModel] | None, str], RequestFrame] = {}
        self._span = telemetry.span_factory(self.endpoint, purpose)
        telemetry.register_client(self)

    def __repr__(self) -> str:
        return f"ChatClient({self.endpoint.label!r}, purpose={self.purpose!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings: the copy in another process opens its own sockets, and shares the cache file.

        Raises:
            PicklingError: the client has a ledger or a callback, which belong to this process.
        """
        if self._spending is not None or self._on_failure is not None:
            own = "a ledger (spending)" if self._spending is not None else "a callback (on_failure)"
            raise PicklingError(f"{self!r} has {own} of this process; make the client in the process that asks")
        settings: dict[str, Any] = {"cache": self._cache_file, "purpose": self.purpose, **self._retries}
        return partial(ChatClient, self.endpoint, **settings), ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def limiter(self) -> Limiter:
        """Limiter shared by all clients of this endpoint and model."""
        return self._transport.limiter

    def note_prompt(self, version: str) -> None:
        """Pin the version of a prompt together with the model's identity, before a call with it.

        Raises:
            UserError: another version of it was sent before, and the endpoint has `on_change: refuse`.
        """
        self._identity.note_prompt(version)

    def require_identity(self, identity: Identity, source: str) -> None:
        """End the run if another model responds, because figures in use were measured on this one.

        Args:
            source: those figures with a verb, for the error, such as "a.json measured it".
        """
        self._identity.require(identity, source)

    @property
    def pinned(self) -> PinnedEntry:
        """Identity that the answers state, and versions of the prompts, as far as this client knows them."""
        return self._identity.entry

    def access_refused(self, error: ChatError) -> str:
        """Message for an error after which no call of this client can succeed: a missing or wrong key; else empty.

        A 403 may also be about one request's content, so it counts only while nothing else has been answered.
        """
        if error.error_class is ErrorClass.REFUSED:
            return ""
        nothing_answered = self.totals.failed >= self.totals.calls - self.totals.cached
        if error.status != 401 and not (error.status == 403 and nothing_answered):
            return ""
        key = self.endpoint.api_key_env
        remedy = f"check the key in {key}" if key else "name the variable that holds the key (api_key_env)"
        return f"{error.message}; {remedy}"

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
        probabilities_of: str = "",
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
        probabilities_of: str = "",
    ) -> Reply[Any]:
        """Send one request, or return its cached answer.

        Args:
            messages: OpenAI's message dictionaries; build their parts with `image_part` and `text_part`.
            response: pydantic model of the answer, or a function that parses its text and raises ValueError if it is
                not usable; None for plain text.
            seed: sent to the server; distinguishes repeated samples of one request.
            check: validates a parsed value further and raises ValueError, which counts as malformed.
            probabilities_of: JSON field of zeros and ones, whose probabilities the reply is to have.
        Raises:
            ChatError: no usable answer after retries and repair turns, or not enough budget.
            UserError: the endpoint's environment, the cache file or the ledger is not usable.
        """
        schema = response if isinstance(response, type) else None
        frame = self._frames.get((schema, probabilities_of))
        if frame is None:
            more = REQUEST_FIELDS if probabilities_of else None
            frame = self._frames[schema, probabilities_of] = RequestFrame(self.endpoint, schema, more)
        question = Question(frame, messages, seed, response, check, probabilities_of)
        request = frame.encode(messages, seed)
        ask = self._ask if self._span is None else self._ask_in_span
        if self._cache is None:
            return await ask(question, request)

        key = request.key
        if (cached := self._lookup(key, question)) is not None:
            return cached
        pending = self._transport.connections.pool().pending_calls
        if (waiters := pending.get(key)) is not None:
            done = asyncio.get_running_loop().create_future()
            waiters.append(done)
            await done
            if (cached := self._lookup(key, question)) is not None:
                return cached
        waiters = pending[key] = []
        try:
            reply = await ask(question, request)
            usage = reply.usage
            entry = to_json([reply.raw, usage.prompt_tokens, usage.completion_tokens, usage.cost, *reply.probabilities])
            self._cache.put(key, self.endpoint.model, entry.decode())
        finally:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
            if pending.get(key) is waiters:
                del pending[key]
        return reply

    def _lookup(self, key: bytes, question: Question) -> Reply[Any] | None:
        assert self._cache is not None
        if (entry := self._cache.get(key)) is None:
            return None
        try:
            raw, prompt_tokens, completion_tokens, cost, *probabilities = from_json(entry)
            usage = Usage(int(prompt_tokens), int(completion_tokens), float(cost))
        except (ValueError, TypeError) as error:
            raise UserError(
                f"the cache {self._cache_file} is damaged: an entry is no answer; delete the file and run again"
            ) from error
        try:
            value = question.parse(raw)
        except ValueError:
            return None
        self.totals.count_cached()
        return Reply(value, raw, usage, cached=True, probabilities=tuple(probabilities))

    async def _ask_in_span(self, question: Question, request: Request) -> Reply[Any]:
        assert self._span is not None
        with self._span() as span:
            reply = await self._ask(question, request)
            telemetry.record_usage(span, reply.usage)
            return reply

    async def _ask(self, question: Question, request: Request) -> Reply[Any]:
        """Get one answer over the network, with repair turns."""
        usage, requests, started = _NO_USAGE, 0, time.perf_counter()
        budget = self._spending if self._spending is not None and self._spending.capped else None
        body, repairs_left = request.body, REPAIR_TURNS if question.response is not None else 0
        try:
            while True:
                if budget is not None:
                    tokens = request.tokens + (len(body) - len(request.body)) // BYTES_PER_TOKEN
                    dollars = self.endpoint.cost(tokens, self.endpoint.max_tokens)
                    tokens += self.endpoint.max_tokens
                    if not budget.try_reserve(tokens, dollars, in_flight=requests > 0):
                        await self._wait_for_budget(tokens, dollars, requests)
                turn_usage = _NO_USAGE
                try:
                    completion = await self._transport.complete(body)
                    turn_usage = self._usage(completion.answer, request)
                    for unfinished in completion.unfinished:
                        turn_usage = turn_usage.plus(self._usage(unfinished, request))
                except ChatError as error:
                    error.attempts += requests
                    for unfinished in error.unfinished:
                        turn_usage = turn_usage.plus(self._usage(unfinished, request))
                    usage = usage.plus(turn_usage)
                    raise
                finally:
                    if budget is not None:  # now, not at the end of the call: its own next turn would wait for it
                        budget.settle(tokens, dollars, turn_usage)
                requests += completion.requests
                usage = turn_usage if usage is _NO_USAGE else usage.plus(turn_usage)
                self._identity.check(completion.answer.identity)
                answer = completion.answer
                if answer.ending is not Ending.FINISHED or answer.refusal or not answer.finish:
                    self._require_finished(answer, requests)
                if question.probabilities_of and not answer.logprobs:
                    raise self._no_logprobs(answer, requests)
                text = question.text_of(answer)
                try:
                    value = question.parse(text)
                    break
                except ValueError as error:
                    if not repairs_left:
                        raise self._error(ErrorClass.MALFORMED, str(error), answer, requests, text) from None
                    repairs_left -= 1
                    body = question.repair_body(text, str(error))
            field = question.probabilities_of
            probabilities = self._probabilities(field, answer, text, requests) if field else ()
        except ChatError as error:
            error.request = request.key.hex()
            self.totals.count(usage, error.attempts, time.perf_counter() - started, error.error_class)
            if self._on_failure is not None:
                self._on_failure(error, self)
            raise
        except UserError:  # it ends the run, and what it paid for is paid for
            self.totals.count(usage, requests, time.perf_counter() - started)
            raise
        else:
            self.totals.count(usage, requests, time.perf_counter() - started)
        finally:
            if self._spending is not None:
                self._spending.write_if_due()
        return Reply(value, text, usage, cached=False, probabilities=probabilities)

    def _no_logprobs(self, answer: Answer, requests: int) -> NoLogprobs:
        message = (
            f"{self.endpoint.model} gives no log-probabilities, which credits and confidences of them need; take an "
            "endpoint that does (vLLM, OpenAI), or leave them out"
        )
        return NoLogprobs(ErrorClass.MALFORMED, message, self._raw(answer), requests)

    def _probabilities(self, field: str, answer: Answer, text: str, requests: int) -> tuple[float, ...]:
        """Probabilities of a field. A model cannot repair those that its server reports, so it is not asked to."""
        try:
            return tuple(field_probabilities(text, answer.logprobs, field))
        except ValueError as error:
            raise self._error(ErrorClass.MALFORMED, str(error), answer, requests) from None

    async def _wait_for_budget(self, tokens: int, dollars: float, requests: int) -> None:
        assert self._spending is not None
        try:
            await self._spending.reserve(tokens, dollars)
        except BudgetReached as error:
            raise self._error(ErrorClass.BUDGET, str(error), None, requests) from None

    def _require_finished(self, answer: Answer, requests: int) -> None:
        """Raise ChatError for an answer that was declined or cut."""
        if answer.refusal or answer.ending is Ending.REFUSED:
            message = f"the model declined: {answer.refusal or answer.finish.replace('_', ' ')}"
            raise self._error(ErrorClass.REFUSED, message, answer, requests, answer.refusal)
        limit = next((limit for limit in map(self.endpoint.extra_body.get, _LIMITS) if isinstance(limit, int)), None)
        limit = limit or self.endpoint.max_tokens
        if answer.ending is Ending.TRUNCATED or (not answer.finish and answer.completion_tokens >= limit):
            reason = "" if answer.finish in ("length", "") else f" (finish_reason {answer.finish!r})"
            message = f"the answer ran into the limit of {limit} tokens{reason}; raise max_tokens"
            raise self._error(ErrorClass.TRUNCATED, message, answer, requests)

    def _usage(self, answer: Answer, request: Request) -> Usage:
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        estimated = False
        if not prompt or not completion:
            written = len(answer.text or "") + len(answer.thought) + len(answer.arguments)
            estimated = not prompt or written > 0
            if estimated and not self._tells_estimate:
                self._tells_estimate = True
                _log.warning("%s does not report all tokens of its answers; they are estimated", self.endpoint.label)
            prompt, completion = prompt or request.tokens, completion or written // BYTES_PER_TOKEN
        cost = self.endpoint.cost(prompt, completion, answer.cached_tokens)
        return Usage(prompt, completion, cost, answer.cached_tokens, estimated)

    def _error(
        self, error_class: ErrorClass, message: str, answer: Answer | None, attempts: int, raw: str = ""
    ) -> ChatError:
        who = f"{self.purpose} {self.endpoint.label}" if self.purpose else self.endpoint.label
        connections = self._transport.connections
        raw = connections.without_key(raw)[:MAX_RAW] or (self._raw(answer) if answer is not None else "")
        return ChatError(error_class, f"{who}: {connections.without_key(message)}", raw, attempts)

    def _raw(self, answer: Answer) -> str:
        """Text of an answer without the API key; the whole response if it has none."""
        connections = self._transport.connections
        return connections.without_key(answer.text or "")[:MAX_RAW] or raw_text(connections.hide_key(answer.payload))
