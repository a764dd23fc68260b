"""HTTP to the servers of one endpoint: a keep-alive pool per event loop, no redirects, no cookies, bounded answers.

The protocol is OpenAI's chat completions over aiohttp, because the SDK costs ten times the CPU per call. A redirect is
an error, as it would send the key to an unknown host. Proxies come from the environment and are looked up once. Each
request has a number in the header `X-Request-Id`, which some servers repeat (vLLM in the answer's id): an answer with
another's number is refused.
"""

import asyncio
import email.utils
import itertools
import re
import secrets
import time
import urllib.request
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from yarl import URL

from rubricworks.errors import UserError
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http.deadlines import Deadlines
from rubricworks.llm.http.errors import describe_error
from rubricworks.llm.replicas import Replica

if TYPE_CHECKING:  # aiohttp is a third of a stage's start-up time, and not needed before the first request
    from rubricworks.llm.http.exchange import HttpExchange

_RETRIED_STATUSES = frozenset({408, 425, 429})
_CONNECT_TIMEOUT_S = 10.0
_MAX_RETRY_AFTER_S = 60.0
_MAX_RAW_BYTES = 20_000
"""Length of a failed answer in the error."""


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
    ) -> None:
        super().__init__(message)
        self.raw = raw
        self.retry = retry
        self.retry_after = retry_after
        """Seconds from the server's `Retry-After`."""
        self.status = status
        self.unreachable = unreachable
        """True if no connection could be made."""
        self.requests = 1
        """Number of requests sent, this one included."""

    @classmethod
    def from_payload(
        cls, message: str, payload: bytes, *, retry: bool, retry_after: float | None = None, status: int = 0
    ) -> Self:
        raw = payload[:_MAX_RAW_BYTES].decode("utf-8", "replace")
        excerpt = " ".join(raw[:2_000].split())[:300] or "the body is empty"
        return cls(f"{message}: {excerpt}", raw, retry=retry, retry_after=retry_after, status=status)


class Connections:
    """Keep-alive connections to an endpoint's servers, from any event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        weakref.finalize(self, _abandon_all, self._pools)
        self._key: re.Pattern[bytes] | None = None
        self._id_prefix = f"rubricworks-{secrets.token_hex(6)}-"
        self._id_prefix_bytes = self._id_prefix.encode()
        self._request_numbers = itertools.count()

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
            raise RequestFailed(f"no answer within {self._endpoint.timeout_s:g} s", retry=True) from error
        except Exception as error:
            if (failed := self._failure(error)) is None:
                raise
            raise failed from None
        finally:
            pool.deadlines.end(task)
        if self._is_another_answer(request_id, headers.get("X-Request-Id"), payload):
            raise RequestFailed("the server answered another request", retry=True)
        if self._key is not None:
            payload = self._key.sub(b"***", payload)
        if status == 200:
            return payload
        if 300 <= status < 400:
            raise RequestFailed.from_payload(
                f"HTTP {status}: redirects are refused", payload, retry=False, status=status
            )
        raise RequestFailed.from_payload(
            f"HTTP {status}",
            payload,
            retry=status >= 500 or status in _RETRIED_STATUSES,
            retry_after=_parse_retry_after(headers.get("Retry-After")),
            status=status,
        )

    def _failure(self, error: Exception) -> RequestFailed | None:
        """Failure of a request that an error of the exchange means; None for a fault of our own."""
        import aiohttp
        from aiohttp.http import HttpProcessingError

        from rubricworks.llm.http.exchange import AnswerTooLarge

        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return RequestFailed(f"no connection within {_CONNECT_TIMEOUT_S:g} s", retry=True, unreachable=True)
        if isinstance(error, TimeoutError):
            return RequestFailed(f"silent for {self._endpoint.read_timeout_s} s", retry=True)
        if isinstance(error, aiohttp.ClientError | HttpProcessingError | OSError):
            unreachable = isinstance(error, aiohttp.ClientConnectorError)
            return RequestFailed(describe_error(error), retry=True, unreachable=unreachable)
        return RequestFailed(str(error)) if isinstance(error, AnswerTooLarge) else None

    def _is_another_answer(self, request_id: str, repeated: str | None, payload: bytes) -> bool:
        """Return True if a header or a body holds the number of another request of ours."""
        if repeated is not None and repeated != request_id and repeated.startswith(self._id_prefix):
            return True
        place = payload.find(self._id_prefix_bytes)
        return place >= 0 and not payload.startswith(request_id.encode(), place)

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

    def _open_pool(self) -> LoopPool:
        from rubricworks.llm.http.exchange import HttpExchange

        for loop in [loop for loop in self._pools if loop.is_closed()]:
            self._pools.pop(loop).http.abandon()
        bases = self._endpoint.connect_urls()
        key = self._endpoint.api_key()
        if key and not key.isprintable():
            raise UserError(
                f"the API key in {self._endpoint.api_key_env} holds a line break or another control character; export "
                "the key alone"
            )
        self._key = _key_pattern(key) if key else None
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        http = HttpExchange(
            headers,
            proxy=_proxy(bases[0]),
            connect_timeout_s=_CONNECT_TIMEOUT_S,
            read_timeout_s=self._endpoint.read_timeout_s,
        )
        return LoopPool(
            http,
            Deadlines(self._endpoint.timeout_s),
            [Replica(base / "chat" / "completions", base / "models") for base in bases],
        )


def _key_pattern(key: str) -> re.Pattern[bytes]:
    """Pattern that matches an API key in JSON, with any of its characters escaped."""
    pieces = [c if c.isalnum() else rf"(?:\\?{re.escape(c)}|\\u00(?i:{ord(c):02x}))" for c in key]
    return re.compile("".join(pieces).encode())


def _abandon_all(pools: dict[asyncio.AbstractEventLoop, LoopPool]) -> None:
    for pool in pools.values():
        pool.http.abandon()
    pools.clear()


def _proxy(url: URL) -> URL | None:
    """Proxy of a URL from HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""
    if urllib.request.proxy_bypass(url.host or ""):
        return None
    proxy = urllib.request.getproxies().get(url.scheme)
    return URL(proxy) if proxy else None


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
