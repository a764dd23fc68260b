"""Image downloads from URLs and servers that are not trusted.

Only allowed hosts over http and https, only public addresses, each redirect checked like the first URL; no proxy,
cookie or credential; sizes and times are bounded. The bytes that come back are not validated yet.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Self

import aiohttp
import stamina
from aiohttp.abc import AbstractResolver
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from rubricworks import __version__
from rubricworks.data.downloads.addresses import CheckedResolver, IPAddress, is_public
from rubricworks.data.downloads.hosts import AllowedHosts, FetchRefused, parse_url
from rubricworks.data.images import BadImage
from rubricworks.llm.http.connections import describe_error

MAX_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_HEADERS = {
    "User-Agent": f"rubricworks/{__version__}",
    "Accept": "image/*, */*;q=0.5",
    # A few bytes could decompress to gigabytes; image formats are compressed already.
    "Accept-Encoding": "identity",
}


class FetchFailed(BadImage):
    """A download failed; the message says why."""

    def __init__(self, reason: str, *, retry: bool = False) -> None:
        super().__init__(reason)
        self.retry = retry


class Fetcher:
    """Downloader for allowed hosts, `concurrency` images at a time. An async context manager.

    Args:
        max_bytes: limit for one image.
        timeout_s: limit for one attempt with its redirects; no further attempt starts after that time.
        connect_timeout_s: limit for connecting.
        read_timeout_s: longest silence before an answer and between two pieces of it.
        attempts: tries of one image, on failed connections, server errors (5xx), broken-off answers and timeouts.
        resolver: DNS resolver; the system's by default.
        tls: trusted certificates; the system's by default.
        addresses_allowed: address check; tests, whose servers are on loopback, replace it.
    """

    def __init__(
        self,
        hosts: AllowedHosts,
        *,
        max_bytes: int = 20_000_000,
        concurrency: int = 16,
        timeout_s: float = 60.0,
        connect_timeout_s: float = 10.0,
        read_timeout_s: float = 15.0,
        attempts: int = 3,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        addresses_allowed: Callable[[IPAddress], bool] = is_public,
    ) -> None:
        self.concurrency = concurrency
        self._hosts, self._max_bytes, self._timeout_s, self._attempts = hosts, max_bytes, timeout_s, attempts
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_s, sock_read=read_timeout_s)
        self._resolver, self._tls, self._addresses_allowed = resolver, tls, addresses_allowed
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        checked = CheckedResolver(self._resolver or ThreadedResolver(), self._addresses_allowed)
        connector = aiohttp.TCPConnector(
            resolver=checked, socket_factory=checked.socket, ssl=self._tls or True, limit=self.concurrency
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            timeout=self._timeout,
            trust_env=False,
            auto_decompress=False,
        )
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self._session.close()

    async def fetch(self, url: str) -> bytes:
        """Download the content of a URL.

        Raises:
            BadImage: the URL is refused, missing or too large, or the attempts are used up.
        """
        parsed = parse_url(url)
        async for attempt in stamina.retry_context(
            on=lambda error: isinstance(error, FetchFailed) and error.retry,
            attempts=self._attempts,
            timeout=self._timeout_s,
            wait_initial=0.5,
            wait_max=5.0,
        ):
            with attempt:
                return await self._attempt(parsed)
        raise AssertionError("unreachable: stamina returns or raises")

    async def _attempt(self, url: URL) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._follow(url)
        except BadImage:
            raise
        except aiohttp.ConnectionTimeoutError:
            raise FetchFailed(f"no connection within {self._timeout.sock_connect:g} s", retry=True) from None
        except aiohttp.ServerTimeoutError:
            raise FetchFailed(f"the server was silent for {self._timeout.sock_read:g} s", retry=True) from None
        except TimeoutError:
            raise FetchFailed(f"took longer than {self._timeout_s:g} s", retry=True) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(error) from None

    async def _follow(self, url: URL) -> bytes:
        answer = await self._ask(url)
        for _ in range(MAX_REDIRECTS):
            if isinstance(answer, bytes):
                return answer
            try:
                url = self._next(url, answer)
                answer = await self._ask(url)
            except FetchRefused as error:
                raise FetchFailed(f"redirect refused: {error}") from None
        if isinstance(answer, bytes):
            return answer
        raise FetchFailed(f"more than {MAX_REDIRECTS} redirects")

    def _next(self, url: URL, location: str) -> URL:
        """Target of a redirect; raises FetchRefused if it must not be followed."""
        try:
            target = parse_url(str(url.join(URL(location))))
        except ValueError as error:
            raise FetchRefused(str(error) if isinstance(error, FetchRefused) else "not a URL") from None
        if url.scheme == "https" and target.scheme == "http":
            raise FetchRefused(f"it leads from https to http, to {target.host}")
        return target

    async def _ask(self, url: URL) -> bytes | str:
        """Request a URL: its content, or the Location of a redirect."""
        self._hosts.check(url)
        async with self._session.get(url, allow_redirects=False) as answer:
            if answer.status in _REDIRECTS and "Location" in answer.headers:
                return answer.headers["Location"]
            return await self._body(answer)

    async def _body(self, answer: aiohttp.ClientResponse) -> bytes:
        if answer.status != 200:
            raise FetchFailed(f"HTTP {answer.status}", retry=answer.status >= 500)
        packing = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if packing not in ("", "identity"):
            raise FetchFailed(f"packed with {packing[:20]}, which was not asked for")
        too_large = FetchFailed(f"larger than {self._max_bytes / 1e6:g} MB")
        if (answer.content_length or 0) > self._max_bytes:
            raise too_large
        pieces = bytearray()
        async for piece in answer.content.iter_any():
            pieces += piece
            if len(pieces) > self._max_bytes:
                raise too_large
        return bytes(pieces)


def _failure(error: Exception) -> FetchFailed:
    final = aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError | aiohttp.ClientResponseError
    return FetchFailed(describe_error(error), retry=not isinstance(error, final))
