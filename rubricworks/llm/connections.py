"""HTTP to the servers of one endpoint: a keep-alive pool per event loop, no redirects, no cookies, bounded answers.

The protocol is OpenAI's chat completions, spoken over aiohttp because the SDK costs ten times the CPU per call. A
redirect is an error: it would carry the key to a host nobody named. Proxies are those of the environment, looked up
once.
"""

import asyncio
import contextlib
import email.utils
import re
import time
import urllib.request
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from yarl import URL

from rubricworks.llm.deadlines import Deadlines
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.http_errors import in_words
from rubricworks.llm.replicas import Replica

if TYPE_CHECKING:  # it is a third of a stage's start, and is needed once something is asked
    import aiohttp

_RETRIED_STATUSES = frozenset({408, 425, 429})
_CONNECT_S = 10.0
_LARGEST_ANSWER = 8 * 2**20
"""Bytes. 16,000 tokens of text are 100 kB."""
_LONGEST_WAIT_S = 60.0
_RAW_KEPT = 20_000
"""Bytes of a failed answer that the error keeps."""


@dataclass
class Lane:
    """What belongs to one event loop."""

    session: "aiohttp.ClientSession"
    deadlines: Deadlines
    replicas: list[Replica]
    flying: dict[bytes, list["asyncio.Future[None]"]] = field(default_factory=dict)
    """Cached calls in flight by key, with those that wait for one instead of asking again."""


class RequestFailed(Exception):
    """One request went wrong."""

    def __init__(
        self,
        message: str,
        raw: str = "",
        *,
        retry: bool = False,
        wait: float | None = None,
        status: int = 0,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.raw = raw
        self.retry = retry
        self.wait = wait
        """Seconds that the server asks for."""
        self.status = status
        self.unreachable = unreachable
        """No connection could be made."""
        self.sent = 1
        """Requests that came to this."""

    @classmethod
    def of_payload(
        cls, message: str, payload: bytes, *, retry: bool, wait: float | None = None, status: int = 0
    ) -> Self:
        raw = payload[:_RAW_KEPT].decode("utf-8", "replace")
        excerpt = " ".join(raw[:2_000].split())[:300] or "the body is empty"
        return cls(f"{message}: {excerpt}", raw, retry=retry, wait=wait, status=status)


class Connections:
    """Keep-alive connections to an endpoint's servers, from any event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        weakref.finalize(self, _abandon_all, self._lanes)
        self._key: re.Pattern[bytes] | None = None

    def lane(self) -> Lane:
        loop = asyncio.get_running_loop()
        if (lane := self._lanes.get(loop)) is None:
            lane = self._lanes[loop] = self._open_lane()
        return lane

    async def exchange(self, lane: Lane, method: str, url: URL, body: bytes | None = None) -> bytes:
        """One request without retries.

        Raises:
            RequestFailed: no answer, or one whose status is not 200.
        """
        import aiohttp

        task = lane.deadlines.begin()
        try:
            answer = await lane.session.request(method, url, data=body, allow_redirects=False)
            length = answer.content_length
            fits = length is not None and length <= _LARGEST_ANSWER and "Content-Encoding" not in answer.headers
            payload = await (answer.read() if fits else _bounded(answer))
        except asyncio.CancelledError as error:
            if not lane.deadlines.end(task):
                raise
            raise RequestFailed(f"no answer within {self._endpoint.timeout_s:g} s", retry=True) from error
        except aiohttp.ConnectionTimeoutError:
            raise RequestFailed(f"no connection within {_CONNECT_S:g} s", retry=True, unreachable=True) from None
        except TimeoutError:
            raise RequestFailed(f"silent for {self._endpoint.read_timeout_s} s", retry=True) from None
        except (aiohttp.ClientError, OSError) as error:
            unreachable = isinstance(error, aiohttp.ClientConnectorError)
            raise RequestFailed(in_words(error), retry=True, unreachable=unreachable) from None
        finally:
            lane.deadlines.end(task)
        if self._key is not None:
            payload = self._key.sub(b"***", payload)
        status = answer.status
        if status == 200:
            return payload
        if 300 <= status < 400:
            raise RequestFailed.of_payload(f"HTTP {status}: redirects are refused", payload, retry=False, status=status)
        raise RequestFailed.of_payload(
            f"HTTP {status}",
            payload,
            retry=status >= 500 or status in _RETRIED_STATUSES,
            wait=_seconds_to_wait(answer.headers.get("Retry-After")),
            status=status,
        )

    async def close(self) -> None:
        """Close every session, also those of event loops that run elsewhere or have ended."""
        here = asyncio.get_running_loop()
        for loop, lane in list(self._lanes.items()):
            if loop is not here and loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(lane.session.close(), loop))
            elif loop is here:
                await lane.session.close()
            else:
                _abandon(lane)
        self._lanes.clear()

    def _open_lane(self) -> Lane:
        import aiohttp

        for loop in [loop for loop in self._lanes if loop.is_closed()]:
            _abandon(self._lanes.pop(loop))
        bases = self._endpoint.connect_urls()
        key = self._endpoint.api_key()
        self._key = _spellings(key) if key else None
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            proxy=_proxy(bases[0]),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=self._endpoint.read_timeout_s),
        )
        return Lane(
            session,
            Deadlines(self._endpoint.timeout_s),
            [Replica(base / "chat" / "completions", base / "models") for base in bases],
        )


def _spellings(key: str) -> re.Pattern[bytes]:
    """Finds a key in JSON, where servers escape different characters of it."""
    pieces = [c if c.isalnum() else rf"(?:\\?{re.escape(c)}|\\u00(?i:{ord(c):02x}))" for c in key]
    return re.compile("".join(pieces).encode())


async def _bounded(answer: "aiohttp.ClientResponse") -> bytes:
    """The body, unless it is larger than any answer. Like `read`, it closes what it could not finish."""
    pieces, size = [], 0
    try:
        async for piece in answer.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST_ANSWER:
                raise RequestFailed(f"the answer is larger than {_LARGEST_ANSWER // 2**20} MiB")
    except BaseException:
        answer.close()
        raise
    return b"".join(pieces)


def _abandon_all(lanes: dict[asyncio.AbstractEventLoop, Lane]) -> None:
    for lane in lanes.values():
        _abandon(lane)
    lanes.clear()


def _abandon(lane: Lane) -> None:
    """Let go of the session of a loop that runs no more: only the part of closing that needs no loop is done."""
    if lane.session.connector is not None:
        closing = lane.session.connector.close().__await__()
        with contextlib.suppress(StopIteration, RuntimeError):
            next(closing)
        closing.close()
    lane.session.detach()


def _proxy(url: URL) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a URL."""
    if urllib.request.proxy_bypass(url.host or ""):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _seconds_to_wait(retry_after: str | None) -> float | None:
    """`Retry-After` as seconds, at most a minute; None if absent or not understood."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(max(seconds, 0.0), _LONGEST_WAIT_S) if seconds == seconds else None
