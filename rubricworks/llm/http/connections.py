"""HTTP to the servers of one endpoint: a keep-alive pool per event loop, no redirects, no cookies, bounded answers.

The protocol is OpenAI's chat completions over aiohttp, because the SDK costs ten times the CPU per call. A redirect is
an error, as it would send the key to an unknown host. Proxies come from the environment and are looked up once per
server. Each request has a number in the header `X-Request-Id`, which some servers repeat (vLLM in the answer's id): an
answer with another's number is refused, unless a gateway's cache repeats the answer to the same question.

Timeouts have one timer per event loop instead of one per request: deadlines expire in the order in which the requests
began, so only the first needs one. aiohttp's own total timeout is a tenth of the cost of a fast call.
"""

import asyncio
import email.utils
import itertools
import re
import secrets
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from yarl import URL

from rubricworks.errors import UserError
from rubricworks.llm.answers.payload import ErrorBody, find_error, parse_payload
from rubricworks.llm.endpoint import Endpoint, append_path
from rubricworks.llm.replicas import Replica
from rubricworks.proxies import proxy_of

if TYPE_CHECKING:
    from rubricworks.llm.answers import Answer

    # aiohttp is a third of a stage's start-up time, and not needed before the first request
    from rubricworks.llm.http.exchange import HttpExchange


def describe_error(error: Exception) -> str:
    import aiohttp
    from aiohttp.http import HttpProcessingError

    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "the TLS certificate or handshake was not accepted"
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        return "the answer is not HTTP"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name does not resolve"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or 'no reason given'}"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    return f"the connection failed ({type(error).__name__})"


class Deadlines:
    """Deadlines of one event loop's open requests. The task that sends a request calls `begin` and `end`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._open: dict[asyncio.Task[object], tuple[float, int]] = {}
        """Task → its deadline, and its number of cancellation requests at `begin`."""
        self._expired: dict[asyncio.Task[object], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> "asyncio.Task[object]":
        task = asyncio.current_task()
        assert task is not None, "a request is sent by a task"
        self._open[task] = (self._loop.time() + self._seconds, task.cancelling())
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._cancel_expired)
        return task

    def end(self, task: "asyncio.Task[object]") -> bool:
        """Return True if the deadline was the only reason for the task's cancellation."""
        if self._open.pop(task, None) is None and (cancellations := self._expired.pop(task, None)) is not None:
            return task.uncancel() <= cancellations
        return False

    def _cancel_expired(self) -> None:
        self._timer = None
        while self._open:
            task, (deadline, cancellations) = next(iter(self._open.items()))
            if deadline > self._loop.time():
                self._timer = self._loop.call_at(deadline, self._cancel_expired)
                return
            del self._open[task]
            self._expired[task] = cancellations
            task.cancel()


_RETRIED_STATUSES = frozenset({408, 425, 429})
_CONNECT_TIMEOUT_S = 10.0
_MAX_RETRY_AFTER_S = 60.0
MAX_RAW = 20_000
"""Length of a failed answer in the error."""
_SHORTEST_SECRET = 12
"""Length of an API key that is hidden; a shorter one, such as `x` or `EMPTY`, is a placeholder, and part of words."""
_REMEMBERED_ANSWERS = 65_536
"""Answers whose questions are remembered, of servers that repeat our numbers."""


@dataclass
class LoopPool:
    """Connections of one event loop."""

    http: "HttpExchange"
    deadlines: Deadlines
    replicas: list[Replica]
    pending_calls: dict[bytes, list["asyncio.Future[None]"]] = field(default_factory=dict)
    """Cacheable calls in flight by key, with the futures of identical calls that wait for the answer."""


class RequestFailed(Exception):
    """One request failed."""

    def __init__(
        self,
        message: str,
        raw: str = "",
        *,
        retry: bool = False,
        retry_after: float | None = None,
        status: int = 0,
        unreachable: bool = False,
        refused: bool = False,
    ) -> None:
        super().__init__(message)
        self.raw = raw
        self.retry = retry
        self.retry_after = retry_after
        """Seconds from the server's `Retry-After`."""
        self.status = status
        self.unreachable = unreachable
        """True if no connection could be made."""
        self.refused = refused
        """True if a content filter declined the request."""
        self.http_status = status
        """Status of the response itself; `status` may be that which an error in its body means."""
        self.answer: Answer | None = None
        """Unfinished answer, whose tokens are paid for."""
        self.requests = 1
        """Number of requests sent, this one included."""

    @classmethod
    def from_payload(
        cls,
        message: str,
        payload: bytes,
        *,
        retry: bool,
        retry_after: float | None = None,
        status: int = 0,
        refused: bool = False,
    ) -> Self:
        raw = raw_text(payload)
        excerpt = " ".join(raw[:2_000].split())[:300] or "the body is empty"
        return cls(f"{message}: {excerpt}", raw, retry=retry, retry_after=retry_after, status=status, refused=refused)


def raw_text(payload: bytes) -> str:
    """Beginning of a response, for a dead letter."""
    return payload[:MAX_RAW].decode("utf-8", "replace")


class Connections:
    """Keep-alive connections to an endpoint's servers, from any event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        weakref.finalize(self, _abandon_all, self._pools)
        self._key: re.Pattern[bytes] | None = None
        self._key_is_no_word = False
        """True for a key with letters and digits, which is hidden in good answers, too."""
        self._id_prefix = f"rubricworks-{secrets.token_hex(6)}-"
        self._id_prefix_bytes = self._id_prefix.encode()
        self._request_numbers = itertools.count()
        self._answered: dict[bytes, int] = {}
        """Number of an answered request, as its server repeated it → hash of its body."""

    def pool(self) -> LoopPool:
        loop = asyncio.get_running_loop()
        if (pool := self._pools.get(loop)) is None:
            pool = self._pools[loop] = self._open_pool()
        return pool

    async def exchange(self, pool: LoopPool, method: str, url: URL, body: bytes = b"") -> bytes:
        """Send one request without retries and return the body of its answer.

        Raises:
            RequestFailed: no answer, or a status other than 200.
        """
        request_id = f"{self._id_prefix}{next(self._request_numbers):08x}"
        task = pool.deadlines.begin()
        try:
            status, headers, payload = await pool.http.ask(method, url, body, request_id)
        except asyncio.CancelledError as error:
            if not pool.deadlines.end(task):
                raise
            message = f"no answer within {self._endpoint.timeout_s:g} s"
            raise RequestFailed(message, self._received(error), retry=True) from error
        except Exception as error:
            if (failed := self._failure(error)) is None:
                raise
            raise failed from None
        finally:
            pool.deadlines.end(task)
        is_another = self._is_another_answer(request_id, headers.get("X-Request-Id"), payload, body)
        if status == 200 and not is_another:
            return self.good_answer(payload)
        payload = self.hide_key(payload)
        if is_another:
            raise RequestFailed.from_payload("the server answered another request", payload, retry=True)
        if 300 <= status < 400:
            raise RequestFailed.from_payload(
                f"HTTP {status}: redirects are refused", payload, retry=False, status=status
            )
        retry_after = _parse_retry_after(headers.get("Retry-After"))
        refused, code = False, status
        if (error_body := _error_in(payload)) is not None:
            refused, retry_after = error_body.refused, retry_after or error_body.retry_after
            code = 429 if status >= 500 and error_body.status == 429 else status
        raise RequestFailed.from_payload(
            f"HTTP {status}",
            payload,
            retry=not refused and (code >= 500 or code in _RETRIED_STATUSES),
            retry_after=None if refused else retry_after,
            status=code,
            refused=refused,
        )

    def _failure(self, error: Exception) -> RequestFailed | None:
        """Request failure that corresponds to an error of the exchange; None for an error in our own code."""
        import aiohttp
        from aiohttp.http import HttpProcessingError

        from rubricworks.llm.http.exchange import AnswerTooLarge, UnreadableEncoding

        raw = self._received(error)
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return RequestFailed(f"no connection within {_CONNECT_TIMEOUT_S:g} s", retry=True, unreachable=True)
        if isinstance(error, aiohttp.ClientError | HttpProcessingError | OSError):
            unreachable = isinstance(error, aiohttp.ClientConnectorError)
            return RequestFailed(describe_error(error), raw, retry=True, unreachable=unreachable)
        return RequestFailed(str(error), raw) if isinstance(error, AnswerTooLarge | UnreadableEncoding) else None

    def _received(self, error: BaseException) -> str:
        """Part of a response that arrived before the error."""
        return raw_text(self.hide_key(getattr(error, "received", b"")))

    def hide_key(self, payload: bytes) -> bytes:
        """Return the payload with the API key, if it is secret, replaced by `***`, for storage or display."""
        return payload if self._key is None else self._key.sub(b"***", payload)

    def good_answer(self, payload: bytes) -> bytes:
        """Return a valid response with an echoed API key removed, unless the key is an ordinary word."""
        return self.hide_key(payload) if self._key_is_no_word else payload

    def without_key(self, text: str) -> str:
        """Return a text as `hide_key` does."""
        return text if self._key is None else self.hide_key(text.encode("utf-8", "replace")).decode()

    def _is_another_answer(self, request_id: str, repeated: str | None, payload: bytes, body: bytes) -> bool:
        """Return True if a header or a body holds the number of another request of ours, with another question."""
        place = payload.find(self._id_prefix_bytes)
        if place < 0 and (repeated is None or not repeated.startswith(self._id_prefix)):
            return False
        own, question = request_id.encode(), hash(body)
        numbers = [repeated.encode()] if repeated is not None and repeated.startswith(self._id_prefix) else []
        numbers += [payload[place : place + len(own)]] if place >= 0 else []
        if any(number != own and self._answered.get(number) != question for number in numbers):
            return True
        self._answered[own] = question
        if len(self._answered) > _REMEMBERED_ANSWERS:
            del self._answered[next(iter(self._answered))]
        return False

    async def close(self) -> None:
        """Close every session, including those of event loops in other threads or already closed."""
        current = asyncio.get_running_loop()
        for loop, pool in list(self._pools.items()):
            if loop is not current and loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.http.close(), loop))
            elif loop is current:
                await pool.http.close()
            else:
                pool.http.abandon()
        self._pools.clear()

    def read_key(self) -> str | None:
        """Read the API key, and hide it from now on.

        Raises:
            UserError: its variable is not set, or holds what no header can.
        """
        key = self._endpoint.api_key()
        if key and not key.isprintable():
            raise UserError(
                f"the API key in {self._endpoint.api_key_env} holds a line break or another control character; export "
                "the key alone"
            )
        if key and len(key) >= _SHORTEST_SECRET:
            self._key = _key_pattern(key)
            self._key_is_no_word = any(map(str.isdigit, key)) and any(map(str.isalpha, key))
        return key

    def _open_pool(self) -> LoopPool:
        from rubricworks.llm.http.exchange import HttpExchange

        for loop in [loop for loop in self._pools if loop.is_closed()]:
            self._pools.pop(loop).http.abandon()
        bases = self._endpoint.connect_urls()
        key = self.read_key()
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        for base in bases:
            proxy_of(base)  # raises for a proxy that cannot be used
        http = HttpExchange(headers, proxy_of=proxy_of, connect_timeout_s=_CONNECT_TIMEOUT_S)
        return LoopPool(
            http,
            Deadlines(self._endpoint.timeout_s),
            [Replica(append_path(base, "chat/completions"), append_path(base, "models")) for base in bases],
        )


def _key_pattern(key: str) -> re.Pattern[bytes]:
    """Pattern that matches an API key in JSON, with any of its characters escaped."""
    pieces = [c if c.isalnum() else rf"(?:\\?{re.escape(c)}|\\u00(?i:{ord(c):02x}))" for c in key]
    return re.compile("".join(pieces).encode())


def _abandon_all(pools: dict[asyncio.AbstractEventLoop, LoopPool]) -> None:
    for pool in pools.values():
        pool.http.abandon()
    pools.clear()


def _error_in(payload: bytes) -> ErrorBody | None:
    try:
        return find_error(parse_payload(payload))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _parse_retry_after(retry_after: str | None) -> float | None:
    """Parse `Retry-After` into seconds, at most a minute; None if absent or invalid."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), _MAX_RETRY_AFTER_S) if seconds == seconds else None
