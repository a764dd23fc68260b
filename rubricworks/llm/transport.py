"""Requests over HTTP: one aiohttp session per event loop, bounded concurrency, retries, no redirects.

The protocol is OpenAI's chat completions, spoken over aiohttp because the SDK costs ten times the CPU per call. Retried
are connections that fail or break off, timeouts, 408, 425, 429 (after `Retry-After` if given), 5xx and bodies that are
not the protocol's; other statuses are final. A redirect is an error: it would carry the key to a host nobody named.
"""

import asyncio
import contextlib
import email.utils
import time
import weakref
from collections.abc import AsyncIterable
from dataclasses import dataclass, field

import aiohttp
import stamina
from yarl import URL

from rubricworks.llm.answers import Answer, read_answer
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.errors import ChatError
from rubricworks.rubrics import ErrorClass

_RETRIED_STATUSES = frozenset({408, 425, 429})
_LONGEST_WAIT_S = 60.0
_RAW_KEPT = 20_000
"""Bytes of a failed answer that the error keeps."""


@dataclass
class Lane:
    """What belongs to one event loop."""

    session: aiohttp.ClientSession
    room: asyncio.Semaphore
    flying: dict[bytes, asyncio.Event] = field(default_factory=dict)
    """Cached calls in flight by key, so that equal ones wait for the first instead of asking again."""


class RequestFailed(Exception):
    """One request went wrong."""

    def __init__(self, message: str, raw: str = "", *, retry: bool, wait: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.raw = raw
        self.retry = retry
        self.wait = wait
        self.status = status


class Transport:
    """Sends requests to one endpoint, from any event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lanes: dict[asyncio.AbstractEventLoop, Lane] = {}
        weakref.finalize(self, _abandon_all, self._lanes)
        self._timeout = _timeout(endpoint.timeout_s)
        self._urls: dict[str, URL] = {}
        self._key = b""

    def lane(self) -> Lane:
        loop = asyncio.get_running_loop()
        if (lane := self._lanes.get(loop)) is None:
            lane = self._lanes[loop] = self._open_lane()
        return lane

    async def complete(self, body: bytes) -> tuple[Answer, int]:
        """The answer to one chat-completions request, and how many requests it took.

        Raises:
            ChatError: of class transport, when the tries are used up or the status is final.
        """
        attempts = 1
        try:
            return await self._complete_once(body), attempts
        except RequestFailed as error:
            failure = error
        # stamina is entered only now, with the first failure replayed into it: its bookkeeping costs as much CPU as
        # the rest of a good call.
        replayed = False
        try:
            async for attempt in self._retrying():
                with attempt:
                    if not replayed:
                        replayed = True
                        raise failure
                    attempts += 1
                    return await self._complete_once(body), attempts
        except RequestFailed as error:
            raise ChatError(
                ErrorClass.TRANSPORT, f"{self._endpoint.label}: {error}", error.raw, attempts
            ) from error.__cause__
        raise AssertionError("unreachable: stamina returns or raises")

    async def request(self, method: str, path: str, body: bytes | None = None, timeout_s: float | None = None) -> bytes:
        """One request to `chat/completions` or `models`, without retries; raises RequestFailed."""
        lane = self.lane()
        timeout = self._timeout if timeout_s is None else _timeout(timeout_s)
        try:
            async with (
                lane.room,
                lane.session.request(
                    method, self._urls[path], data=body, allow_redirects=False, timeout=timeout
                ) as answer,
            ):
                payload = await answer.read()
        except TimeoutError as error:
            waited = timeout_s or self._endpoint.timeout_s
            raise RequestFailed(f"no answer within {waited:g} s", retry=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RequestFailed(_reason(error), retry=True) from None
        if self._key and self._key in payload:
            payload = payload.replace(self._key, b"***")
        if answer.status == 200:
            return payload
        raw = payload[:_RAW_KEPT].decode("utf-8", "replace")
        if 300 <= answer.status < 400:
            raise RequestFailed(f"HTTP {answer.status}: redirects are refused", raw, retry=False, status=answer.status)
        raise RequestFailed(
            f"HTTP {answer.status}: {_excerpt(raw)}",
            raw,
            retry=answer.status >= 500 or answer.status in _RETRIED_STATUSES,
            wait=_seconds_to_wait(answer.headers.get("Retry-After")),
            status=answer.status,
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

    async def _complete_once(self, body: bytes) -> Answer:
        payload = await self.request("POST", "chat/completions", body)
        try:
            return read_answer(payload)
        except ValueError as error:
            raw = payload[:_RAW_KEPT].decode("utf-8", "replace")
            raise RequestFailed(f"{error}: {_excerpt(raw)}", raw, retry=True) from None

    def _retrying(self) -> AsyncIterable[stamina.Attempt]:
        return stamina.retry_context(
            on=_backoff,
            attempts=self._endpoint.attempts,
            timeout=max(60.0, 2 * self._endpoint.timeout_s),
            wait_initial=0.2,
            wait_max=20.0,
            wait_jitter=0.2,
        )

    def _open_lane(self) -> Lane:
        for loop in [loop for loop in self._lanes if loop.is_closed()]:
            _abandon(self._lanes.pop(loop))
        base = self._endpoint.connect_url()
        self._urls = {path: base / path for path in ("chat/completions", "models")}
        key = self._endpoint.api_key()
        self._key = key.encode() if key else b""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
        )
        return Lane(session, asyncio.Semaphore(self._endpoint.concurrency))


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


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(10.0, seconds))


def _backoff(error: Exception) -> bool | float:
    if not isinstance(error, RequestFailed) or not error.retry:
        return False
    return True if error.wait is None else error.wait


def _reason(error: Exception) -> str:
    """What went wrong, in words; aiohttp's own text names hosts and headers."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "the TLS certificate or handshake was not accepted"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "the host name does not resolve"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {error.os_error.strerror or 'no reason given'}"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    return f"the connection failed ({type(error).__name__})"


def _excerpt(raw: str) -> str:
    return " ".join(raw[:2_000].split())[:300] or "the body is empty"


def _seconds_to_wait(retry_after: str | None) -> float | None:
    """`Retry-After` as seconds, capped; None if absent or not understood."""
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _LONGEST_WAIT_S) if seconds == seconds else None
