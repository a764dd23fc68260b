"""HTTP exchanges over keep-alive connections, each of which carries one answer to one question.

aiohttp opens the connections (names, TLS, proxies) and parses what comes in. Its session is left out: what it builds
and merges for every request costs twice the CPU of the exchange itself, and our requests differ only in their bodies.

A server that sends more than it was asked for would have its surplus taken for the answer to the next question: such a
connection is closed, not used again. aiohttp itself looks only while an answer is read, and the reader of a body that
breaks the protocol is not told of it, and waits for the timeout.
"""

import asyncio
import contextlib
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from yarl import URL

try:
    from fcntl import ioctl
    from termios import FIONREAD
except ImportError:  # Windows
    ioctl = None  # type: ignore[assignment]

_MAX_ANSWER_BYTES = 8 * 2**20
"""16,000 tokens of text are 100 kB."""
_KEEP_ALIVE_S = 15.0
"""Longest pause of a connection that is used again, as in aiohttp; most servers end it earlier."""
_NO_BYTES = bytes(4)
_TOO_LARGE = f"the answer is larger than {_MAX_ANSWER_BYTES // 2**20} MiB"
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""Window sizes of zlib by Content-Encoding; some servers send `deflate` without its header."""


class AnswerTooLarge(Exception):
    """An answer is larger than any that a model writes."""


class UnreadableEncoding(Exception):
    """An answer is compressed in a way that was not asked for, and that cannot be undone here."""


class HttpAnswer(NamedTuple):
    """Answer to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class AnswerProtocol(ResponseHandler):
    """One connection."""

    _unread: Any = None
    """Its socket, if that can be asked for what has come in: Not with TLS, which sends its own records, and not on
    Windows.
    """

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        can_be_asked = ioctl is not None and transport.get_extra_info("sslcontext") is None
        self._unread = transport.get_extra_info("socket") if can_be_asked else None

    async def ask(self, head: bytes, body: bytes) -> HttpAnswer:
        """Send one request and read its answer.

        Raises:
            aiohttp.ClientError, HttpProcessingError, OSError: the connection failed, or what came is no HTTP.
            AnswerTooLarge: it has more than 8 MiB.
            UnreadableEncoding: its Content-Encoding cannot be undone.

        An error has what had come until then, as attribute `received`.
        """
        assert self.transport is not None, "the connection is open"
        self.set_response_params(read_until_eof=True, auto_decompress=False)
        self.transport.writelines((head, body))
        message, content = await self.read()
        while 100 <= message.code < 200 and not self.upgraded:  # announcements, such as 103
            message, content = await self.read()
        pieces, size = [], 0
        try:
            while not content.at_eof():  # most are here whole already
                piece = await content.readany()
                pieces.append(piece)
                size += len(piece)
                if size > _MAX_ANSWER_BYTES:
                    raise AnswerTooLarge(_TOO_LARGE)
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if "Content-Encoding" in message.headers:
                body = _decompress(body, message.headers["Content-Encoding"])
        except BaseException as error:
            error.received = b"".join(pieces)  # type: ignore[attr-defined]
            raise
        return HttpAnswer(message.code, message.headers, body)

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        """End the body in progress with the connection's error, too."""
        payload = self._payload
        super().set_exception(exc, *cause)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body breaks the protocol"), exc)

    def is_reusable(self) -> bool:
        """Return True if the connection is open, and nothing has come in since its last answer, or is left to send."""
        transport = self.transport
        if transport is None or transport.is_closing() or self.should_close or transport.get_write_buffer_size():
            return False
        if self._unread is None:
            return True
        descriptor = self._unread.fileno()
        return descriptor < 0 or ioctl(descriptor, FIONREAD, _NO_BYTES) == _NO_BYTES


def _decompress(body: bytes, encoding: str) -> bytes:
    """Undo a Content-Encoding that nobody asked for."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return body
    for window in _WINDOWS.get(name, ()):
        with contextlib.suppress(zlib.error):
            decompressor = zlib.decompressobj(window)
            whole = decompressor.decompress(body, _MAX_ANSWER_BYTES + 1)
            if len(whole) > _MAX_ANSWER_BYTES:
                raise AnswerTooLarge(_TOO_LARGE)
            if decompressor.eof:
                return whole
    raise UnreadableEncoding(
        f"the answer is compressed with Content-Encoding {encoding[:40]!r}, which was not asked for and cannot be read "
        "here; let the gateway send it as it is"
    )


@dataclass
class _Route:
    """Requests of one method and URL."""

    request: aiohttp.ClientRequest
    """Request that aiohttp opens connections for; it is never sent."""
    head: bytes = b""
    """Request line and headers, up to the number of the request; empty before the first connection."""
    idle: list[tuple[Connection, float]] = field(default_factory=list)
    """Open connections, and when each was last used by `time.monotonic`; the last used last."""

    def take_idle(self) -> Connection | None:
        """The connection used last, if it can be used again."""
        earliest = time.monotonic() - _KEEP_ALIVE_S
        while self.idle:
            connection, last_used = self.idle.pop()
            protocol = connection.protocol
            if isinstance(protocol, AnswerProtocol) and last_used > earliest and protocol.is_reusable():
                return connection
            connection.close()
        return None

    def request_head(self) -> bytes:
        """Request line and headers of the open connection's request: a proxy's credentials are among them by then."""
        request = self.request
        target = str(request.url) if request.proxy and not request.is_ssl() else request.url.raw_path_qs
        headers = (f"{name}: {value}\r\n" for name, value in request.headers.items() if name != "Content-Length")
        return f"{request.method} {target} HTTP/1.1\r\n{''.join(headers)}X-Request-Id: ".encode()


class HttpExchange:
    """Exchanges of one event loop with the servers of an endpoint."""

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        proxy_of: Callable[[URL], URL | None],
        connect_timeout_s: float,
    ) -> None:
        """
        Args:
            headers: headers of every request, without control characters.
            proxy_of: proxy of a URL, asked once for each.
        """
        self._headers = headers
        self._proxy_of = proxy_of
        self._connect_timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s)
        self._loop = asyncio.get_running_loop()
        self._connector = aiohttp.TCPConnector(limit=0)
        self._connector._factory = partial(AnswerProtocol, loop=self._loop)  # type: ignore[assignment]  # its own protocol
        self._routes: dict[tuple[str, URL], _Route] = {}
        self._closing_old: asyncio.TimerHandle | None = None

    async def ask(self, method: str, url: URL, body: bytes, request_id: str) -> HttpAnswer:
        """Send one request with its number in `X-Request-Id`; raises like `AnswerProtocol.ask`."""
        if (route := self._routes.get((method, url))) is None:
            proxy = self._proxy_of(url)
            request = aiohttp.ClientRequest(method, url, headers=self._headers, proxy=proxy, loop=self._loop)
            route = self._routes[method, url] = _Route(request)
        connection = route.take_idle() or await self._connect(route)
        protocol = connection.protocol
        assert isinstance(protocol, AnswerProtocol)
        length = b"Content-Length: %d\r\n" % len(body) if body else b""
        head = b"%s%s\r\n%s\r\n" % (route.head, request_id.encode(), length)
        try:
            answer = await protocol.ask(head, body)
        except BaseException:
            connection.close()
            raise
        route.idle.append((connection, time.monotonic()))
        if self._closing_old is None:
            self._closing_old = self._loop.call_later(_KEEP_ALIVE_S, self._close_old)
        return answer

    def _close_old(self) -> None:
        """Close what has been idle for long: a server of one thread answers nobody else until then."""
        earliest = time.monotonic() - _KEEP_ALIVE_S
        for route in self._routes.values():
            while route.idle and route.idle[0][1] <= earliest:
                route.idle.pop(0)[0].close()
        is_idle = any(route.idle for route in self._routes.values())
        self._closing_old = self._loop.call_later(_KEEP_ALIVE_S / 3, self._close_old) if is_idle else None

    async def _connect(self, route: _Route) -> Connection:
        try:
            connection = await self._connector.connect(route.request, [], self._connect_timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError from error
        route.head = route.head or route.request_head()
        return connection

    async def close(self) -> None:
        await self._connector.close()
        self._drop_idle()

    def abandon(self) -> None:
        """Close the connections of a stopped event loop: run only the part of closing that needs no loop."""
        closing = self._connector.close().__await__()
        with contextlib.suppress(StopIteration, RuntimeError):
            next(closing)
        closing.close()
        self._drop_idle()

    def _drop_idle(self) -> None:
        if self._closing_old is not None:
            self._closing_old.cancel()
        for route in self._routes.values():
            for connection, _ in route.idle:
                connection.close()
            route.idle.clear()
