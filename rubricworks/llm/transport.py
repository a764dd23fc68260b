"""One model's requests: taken in turn by the limiter, sent to a replica, tried again when they fail in passing.

Retried with stamina are connections that fail or break off, timeouts, 408, 425, 5xx and bodies that are not the
protocol's; other statuses are final. A 429 is no failure: the request waits for the limiter and is sent again, until
the server has answered nothing else for `patience_s`. Then all that wait fail, and one at a time tries whether it does.
"""

import time
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, NamedTuple

from rubricworks.llm import telemetry
from rubricworks.llm.answers import Answer, read_answer
from rubricworks.llm.connections import Connections, RequestFailed
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.limiter import limiter_of
from rubricworks.llm.question import ChatError
from rubricworks.llm.replicas import choose
from rubricworks.rubrics import ErrorClass

if TYPE_CHECKING:
    import stamina

_NEVER_GETS_BETTER = "insufficient_quota"
"""OpenAI's 429 for an account without credit."""


class Delivery(NamedTuple):
    """What came of one call."""

    answer: Answer
    requests: int
    """Sent over the network for it."""


class Transport:
    """Sends requests to one endpoint, from any event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.limiter = limiter_of(endpoint)
        self.connections = Connections(endpoint)

    async def complete(self, body: bytes) -> Delivery:
        """The answer to one chat-completions request.

        Raises:
            ChatError: of class transport, when the tries are used up or the status is final.
        """
        try:
            return await self._send(body)
        except RequestFailed as error:
            failure = error
        # stamina is entered only now, with the first failure replayed into it: its bookkeeping costs as much CPU as
        # the rest of a good call.
        requests, replayed = failure.sent, False
        try:
            async for attempt in self._retrying():
                with attempt:
                    if not replayed:
                        replayed = True
                        raise failure
                    try:
                        delivery = await self._send(body)
                    except RequestFailed as error:
                        requests += error.sent
                        raise
                    return Delivery(delivery.answer, requests + delivery.requests)
        except RequestFailed as error:
            message = f"{self._endpoint.label}: {error}"
            raise ChatError(ErrorClass.TRANSPORT, message, error.raw, requests) from error.__cause__
        raise AssertionError("unreachable: stamina returns or raises")

    async def close(self) -> None:
        await self.connections.close()

    async def _send(self, body: bytes) -> Delivery:
        """Sent when the limiter lets it, again and again while the server asks for patience. Raises RequestFailed."""
        limiter, connections, sent = self.limiter, self.connections, 0
        lane = connections.lane()  # first: it raises where the key is not set, and a place taken would be lost
        while True:
            if not limiter.take() and not await limiter.wait(self._endpoint.patience_s):
                raise self._impatient("not sent", "", sent)
            sent += 1
            sent_at, answered = time.monotonic(), False
            replica = choose(lane.replicas)
            replica.in_flight += 1
            try:
                payload = await connections.exchange(lane, "POST", replica.chat_url, body)
                try:
                    answer = read_answer(payload)
                except ValueError as error:
                    raise RequestFailed.of_payload(str(error), payload, retry=True) from None
                answered = True
                if replica.failures or replica.rests:
                    replica.succeeded()
                return Delivery(answer, sent)
            except RequestFailed as error:
                error.sent = sent
                if error.unreachable or error.status >= 500 or not error.status:
                    replica.failed(sent_at, unreachable=error.unreachable)
                self._heed(error, sent_at)
            finally:
                replica.in_flight -= 1
                limiter.give_back(answered=answered)

    def _heed(self, error: RequestFailed, sent_at: float) -> None:
        """Raise the error, unless the server only asks for patience and has not asked for too long."""
        if error.status != 429 and error.wait is None:
            raise error
        waited = self.limiter.slow_down(sent_at, error.wait)
        telemetry.count_throttled(self._endpoint)
        if error.status != 429:
            raise error
        if _NEVER_GETS_BETTER in error.raw:
            error.retry = False
            raise error
        if waited > self._endpoint.patience_s:
            raise self._impatient(str(error), error.raw, error.sent)

    def _impatient(self, what: str, raw: str, sent: int) -> RequestFailed:
        patience = f"the server has asked for patience and answered nothing else for {self._endpoint.patience_s:g} s"
        error = RequestFailed(f"{what}; {patience} (patience_s)", raw, status=429)
        error.sent = sent
        return error

    def _retrying(self) -> AsyncIterable["stamina.Attempt"]:
        import stamina

        return stamina.retry_context(
            on=_backoff,
            attempts=self._endpoint.attempts,
            timeout=max(60.0, 2 * self._endpoint.timeout_s),
            wait_initial=0.2,
            wait_max=20.0,
            wait_jitter=0.2,
        )


def _backoff(error: Exception) -> bool | float:
    if not isinstance(error, RequestFailed) or not error.retry:
        return False
    return True if error.wait is None else error.wait
