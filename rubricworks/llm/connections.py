"""HTTP to the servers of one endpoint: a keep-alive pool per event loop, no redirects, no cookies, bounded answers.

The protocol is OpenAI's chat completions over aiohttp, because the SDK costs ten times the CPU per call. A redirect is
an error, as it would send the key to an unknown host. Proxies come from the environment and are looked up once. Each
request has a number in the header `X-Request-Id`, which some servers repeat (vLLM in the answer's id): an answer with
another's number is refused.
"""

import asyncio
import contextlib
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

from rubricworks.llm.deadlines import Deadlines
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http_errors import describe_error
from rubricworks.llm.replicas import Replica

if TYPE_CHECKING:  # a third of a stage's start-up time, and not needed before the first request
    import aiohttp

_RETRIED_STATUSES = frozenset({408, 425, 429})
_CONNECT_TIMEOUT_S = 10.0
_MAX_ANSWER_BYTES = 8 * 2**20
"""16,000 tokens of text are 100 kB."""
_MAX_RETRY_AFTER_S = 60.0
_MAX_RAW_BYTES = 20_000
"""Length of a failed answer in the error."""
_REQUEST_ID = "X-Request-Id"


@dataclass
class LoopPool:
    """Connections of one event loop."""

    session: "aiohttp.ClientSession"
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

    async def exchange(self, pool: LoopPool, method: str, url: URL, body: bytes | None = None) -> bytes:
        """Send one request without retries and return the body of its answer.

        Raises:
            RequestFailed: no answer, or a status other than 200.
        """
        import aiohttp

        task = pool.deadlines.begin()
        try:
            request_id = f"{self._id_prefix}{next(self._request_numbers):08x}"
            # Read before the request first waits; headers of its own would cost a merge.
            pool.session.headers[_REQUEST_ID] = request_id
            answer = await pool.session.request(method, url, data=body, allow_redirects=False)
            length = answer.content_length
            bounded = length is not None and length <= _MAX_ANSWER_BYTES and "Content-Encoding" not in answer.headers
            payload = await (answer.read() if bounded else _read_bounded(answer))
        except asyncio.CancelledError as error:
            if not pool.deadlines.end(task):
                raise
            raise RequestFailed(f"no answer within {self._endpoint.timeout_s:g} s", retry=True) from error
        except aiohttp.ConnectionTimeoutError:
            raise RequestFailed(
                f"no connection within {_CONNECT_TIMEOUT_S:g} s", retry=True, unreachable=True
            ) from None
        except TimeoutError:
            raise RequestFailed(f"silent for {self._endpoint.read_timeout_s} s", retry=True) from None
        except (aiohttp.ClientError, OSError) as error:
            unreachable = isinstance(error, aiohttp.ClientConnectorError)
            raise RequestFailed(describe_error(error), retry=True, unreachable=unreachable) from None
        finally:
            pool.deadlines.end(task)
        if self._is_another_answer(request_id, answer.headers.get(_REQUEST_ID), payload):
            raise RequestFailed("the server answered another request", retry=True)
        if self._key is not None:
            payload = self._key.sub(b"***", payload)
        status = answer.status
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
            retry_after=_parse_retry_after(answer.headers.get("Retry-After")),
            status=status,
        )

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
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.session.close(), loop))
            elif loop is current:
                await pool.session.close()
            else:
                _abandon(pool)
        self._pools.clear()

    def _open_pool(self) -> LoopPool:
        import aiohttp

        from rubricworks.llm.connector import AnswerConnector

        for loop in [loop for loop in self._pools if loop.is_closed()]:
            _abandon(self._pools.pop(loop))
        bases = self._endpoint.connect_urls()
        key = self._endpoint.api_key()
        self._key = _key_pattern(key) if key else None
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        session = aiohttp.ClientSession(
            connector=AnswerConnector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            proxy=_proxy(bases[0]),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=self._endpoint.read_timeout_s
            ),
        )
        return LoopPool(
            session,
            Deadlines(self._endpoint.timeout_s),
            [Replica(base / "chat" / "completions", base / "models") for base in bases],
        )


def _key_pattern(key: str) -> re.Pattern[bytes]:
    """Pattern that matches an API key in JSON, with any of its characters escaped."""
    pieces = [c if c.isalnum() else rf"(?:\\?{re.escape(c)}|\\u00(?i:{ord(c):02x}))" for c in key]
    return re.compile("".join(pieces).encode())


async def _read_bounded(answer: "aiohttp.ClientResponse") -> bytes:
    """Read a body of limited size; like `read`, close the connection if that fails."""
    pieces, size = [], 0
    try:
        async for piece in answer.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > _MAX_ANSWER_BYTES:
                raise RequestFailed(f"the answer is larger than {_MAX_ANSWER_BYTES // 2**20} MiB")
    except BaseException:
        answer.close()
        raise
    return b"".join(pieces)


def _abandon_all(pools: dict[asyncio.AbstractEventLoop, LoopPool]) -> None:
    for pool in pools.values():
        _abandon(pool)
    pools.clear()


def _abandon(pool: LoopPool) -> None:
    """Release the session of a stopped event loop: run only the part of closing that needs no loop."""
    if pool.session.connector is not None:
        closing = pool.session.connector.close().__await__()
        with contextlib.suppress(StopIteration, RuntimeError):
            next(closing)
        closing.close()
    pool.session.detach()


def _proxy(url: URL) -> str | None:
    """Proxy of a URL from HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""
    if urllib.request.proxy_bypass(url.host or ""):
        return None
    return urllib.request.getproxies().get(url.scheme)


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
