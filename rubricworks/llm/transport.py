"""Transport of one model's requests: limiter, choice of a replica, retries of transient failures.

stamina retries failed and broken connections, timeouts, 408, 425, 5xx, bodies that violate the protocol and answers
that the server ended early; other statuses are final. An error in the body of a 200 has the status that its code means.
A 429 is not a failure: the request waits for the limiter and is sent again, until the server has
answered nothing else for ten minutes. Then all waiting requests fail, and one at a time probes the server.
"""

import time
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, NamedTuple

from rubricworks.errors import TransientError
from rubricworks.llm import telemetry
from rubricworks.llm.answers import Answer, AnswerFailed, read_answer
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http.connections import Connections, RequestFailed, raw_text
from rubricworks.llm.limiter import shared_limiter
from rubricworks.llm.question import ChatError
from rubricworks.llm.replicas import choose_replica
from rubricworks.llm.served import lost_reason
from rubricworks.rubrics import ErrorClass

if TYPE_CHECKING:
    import stamina

ATTEMPTS = 8
PATIENCE_S = 600.0
"""Seconds of nothing but 429 responses after which calls fail."""
_QUOTA_EXCEEDED = "insufficient_quota"
"""Code of OpenAI's 429 for an account without credit, which is final."""


class Completion(NamedTuple):
    """Result of one call."""

    answer: Answer
    requests: int
    """Number of requests sent."""
    unfinished: tuple[Answer, ...] = ()
    """Answers that the server ended early, whose tokens are paid for as well."""


class Transport:
    """Sender of requests to one endpoint, from any event loop."""

    def __init__(self, endpoint: Endpoint, attempts: int = ATTEMPTS, patience_s: float = PATIENCE_S) -> None:
        self._endpoint, self._attempts, self._patience_s = endpoint, attempts, patience_s
        self.limiter = shared_limiter(endpoint)
        self.connections = Connections(endpoint)

    async def complete(self, body: bytes) -> Completion:
        """Send one chat-completions request and return its answer.

        Raises:
            ChatError: of class transport, if the attempts are used up or the status is final; of class refused, if a
                content filter declined the request.
        """
        try:
            return await self._send(body)
        except RequestFailed as error:
            failure = error
        # Enter stamina only now, and replay the first failure into it: its bookkeeping costs as much CPU as the rest
        # of a successful call.
        requests, replayed = failure.requests, False
        unfinished = [failure.answer] if failure.answer is not None else []
        try:
            async for attempt in self._retrying():
                with attempt:
                    if not replayed:
                        replayed = True
                        raise failure
                    try:
                        completion = await self._send(body)
                    except RequestFailed as error:
                        requests += error.requests
                        unfinished += [error.answer] if error.answer is not None else []
                        raise
                    return Completion(completion.answer, requests + completion.requests, tuple(unfinished))
        except RequestFailed as error:
            message = f"{self._endpoint.label}: {error}"
            error_class = ErrorClass.REFUSED if error.refused else ErrorClass.TRANSPORT
            failed = ChatError(error_class, message, error.raw, requests, status=error.http_status)
            failed.unfinished = tuple(unfinished)
            raise failed from error.__cause__
        raise AssertionError("unreachable: stamina returns or raises")

    async def close(self) -> None:
        await self.connections.close()

    async def _send(self, body: bytes) -> Completion:
        """Send a request once the limiter admits it, and again while the server throttles. Raises RequestFailed."""
        limiter, connections, requests = self.limiter, self.connections, 0
        pool = connections.pool()  # first: it raises if the key is not set, and an acquired slot would be lost
        while True:
            if not limiter.try_acquire() and not await limiter.acquire(self._patience_s):
                raise self._patience_exceeded("not sent", "", requests)
            requests += 1
            sent_at, answered = time.monotonic(), False
            replica = choose_replica(pool.replicas)
            replica.in_flight += 1
            try:
                payload = await connections.exchange(pool, "POST", replica.chat_url, body)
                try:
                    answer = read_answer(payload)
                except AnswerFailed as error:
                    message = connections.without_key(str(error))
                    raise _failed_answer(error, message, connections.hide_key(payload)) from None
                except ValueError as error:
                    raise RequestFailed.from_payload(str(error), connections.hide_key(payload), retry=True) from None
                answered = True
                if replica.failures or replica.outages:
                    replica.record_success()
                return Completion(answer, requests)
            except RequestFailed as error:
                error.requests = requests
                if error.unreachable or error.status >= 500 or not (error.status or error.refused):
                    replica.record_failure(sent_at, unreachable=error.unreachable)
                self._handle_failure(error, sent_at)
            finally:
                replica.in_flight -= 1
                limiter.release(answered=answered)

    def _handle_failure(self, error: RequestFailed, sent_at: float) -> None:
        """Raise the error unless it is a 429 and the server has not throttled for too long."""
        if error.refused or (error.status != 429 and error.retry_after is None):
            raise error
        throttled_s = self.limiter.back_off(sent_at, error.retry_after)
        telemetry.count_throttled(self._endpoint)
        if error.status != 429:
            raise error
        if _QUOTA_EXCEEDED in error.raw:
            error.retry = False
            raise error
        if throttled_s > self._patience_s:
            raise self._patience_exceeded(str(error), error.raw, error.requests)

    def _patience_exceeded(self, prefix: str, raw: str, requests: int) -> RequestFailed:
        explanation = f"the server has asked for patience and answered nothing else for {self._patience_s:g} s"
        error = RequestFailed(f"{prefix}; {explanation}", raw, status=429)
        error.requests = requests
        return error

    def _retrying(self) -> AsyncIterable["stamina.Attempt"]:
        import stamina

        served, timeout = self._endpoint.serve, max(60.0, 2 * self._endpoint.timeout_s)
        return stamina.retry_context(
            on=_backoff if served is None else _RestartPatience(served.name, self._attempts),
            attempts=self._attempts if served is None else None,
            timeout=timeout if served is None else max(timeout, served.start_within),
            wait_initial=0.2,
            wait_max=20.0,
            wait_jitter=0.2,
        )


def _failed_answer(error: AnswerFailed, message: str, payload: bytes) -> RequestFailed:
    failed = RequestFailed(
        message,
        raw_text(payload),
        retry=error.retry,
        retry_after=error.retry_after,
        status=error.status,
        refused=error.refused,
    )
    failed.http_status = 0  # no error
    failed.answer = error.answer
    return failed


class _RestartPatience:
    """Retries of one call to a model that the run serves: a server that is gone is started again, and then answers."""

    def __init__(self, name: str, attempts: int) -> None:
        self._name, self._attempts_left = name, attempts

    def __call__(self, error: Exception) -> bool | float:
        if not isinstance(error, RequestFailed):
            return False
        if error.unreachable:
            if reason := lost_reason(self._name):
                raise TransientError(f"{self._name} does not come back: {reason}")
            return True
        self._attempts_left -= 1
        return self._attempts_left > 0 and _backoff(error)


def _backoff(error: Exception) -> bool | float:
    if not isinstance(error, RequestFailed) or not error.retry:
        return False
    return True if error.retry_after is None else error.retry_after
