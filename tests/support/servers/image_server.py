"""A web server on loopback that answers as a test tells it to, byte by byte; and fetching from it."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from ipaddress import ip_address
from ssl import SSLContext
from typing import Any

from aiohttp.abc import AbstractResolver
from PIL import Image

from rubricworks.data.downloads.addresses import IPAddress, is_public
from rubricworks.data.downloads.fetcher import Fetcher
from rubricworks.data.downloads.hosts import AllowedHosts
from rubricworks.data.images import BadImage


@dataclass
class Page:
    """One answer. A Content-Length that is not among the headers is the body's; None sends none at all."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    headers: dict[str, str | None] = field(default_factory=dict)


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    address: str
    """Of this machine's, on which it came in."""


class ImageServer:
    """Pages by path; a page may be a function of how often the path was asked for before."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0, tls: SSLContext | None = None) -> None:
        self.pages: dict[str, Page | Callable[[int], Page]] = {}
        self.asked: list[Asked] = []
        self.busiest = 0
        """Requests that were answered at the same time, at most."""
        self._busy = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer((address, port), self._handler())
        self._http.daemon_threads = True
        if tls:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def times(self, path: str) -> int:
        return sum(request.path == path for request in self.asked)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with server._lock:
                    before = server.times(self.path)
                    server.asked.append(Asked(self.path, dict(self.headers), self.connection.getsockname()[0]))
                    server._busy += 1
                    server.busiest = max(server.busiest, server._busy)
                try:
                    page = server.pages.get(self.path, Page(b"there is nothing here", 404))
                    server._send(self, page(before) if callable(page) else page)
                finally:
                    with server._lock:
                        server._busy -= 1

            def log_message(self, *_: object) -> None: ...

        return Handler

    def _send(self, request: BaseHTTPRequestHandler, page: Page) -> None:
        headers = dict(page.headers)
        if isinstance(page.body, bytes):
            headers.setdefault("Content-Length", str(len(page.body)))
        with contextlib.suppress(ConnectionError):  # the asker has heard enough
            request.send_response(page.status)
            for name, value in headers.items():
                if value is not None:
                    request.send_header(name, value)
            request.end_headers()
            for piece in [page.body] if isinstance(page.body, bytes) else page.body:
                request.wfile.write(piece)
                request.wfile.flush()


def drip(content: bytes, pause_s: float) -> Iterable[bytes]:
    """A byte at a time."""
    for number in range(len(content)):
        yield content[number : number + 1]
        time.sleep(pause_s)


def picture(shade: int = 0) -> bytes:
    buffer = BytesIO()
    Image.new("RGB", (12, 8), (shade, 80, 120)).save(buffer, "PNG")
    return buffer.getvalue()


class Names(AbstractResolver):
    """Resolves names to what a test says: name → addresses, or one list of addresses after the other."""

    def __init__(self, addresses: dict[str, list[str] | list[list[str]]]) -> None:
        self.addresses = addresses
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[Any]:
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        answers = self.addresses[host]
        if isinstance(answers[0], list):
            answers = answers[min(self.asked.count(host), len(answers) - 1)]
        self.asked.append(host)
        families = {4: socket.AF_INET, 6: socket.AF_INET6}
        return [
            {"hostname": host, "host": text, "port": port, "family": families[ip_address(text).version]}
            | {"proto": 0, "flags": socket.AI_NUMERICHOST}
            for text in answers
        ]

    async def close(self) -> None: ...


def here_or_public(address: IPAddress) -> bool:
    """127.0.0.1 counts as public: it is where the tests' servers are."""
    return is_public(address) or str(address) == "127.0.0.1"


def fetcher(
    *entries: str, names: dict[str, Any] | None = None, kind: type[Fetcher] = Fetcher, **limits: Any
) -> Fetcher:
    """One that reaches the tests' servers; `images.test` is 127.0.0.1."""
    resolver = Names({"images.test": ["127.0.0.1"], **(names or {})})
    return kind(AllowedHosts(entries), resolver=resolver, addresses_allowed=here_or_public, **limits)


def fetch(fetcher: Fetcher, *urls: str) -> list[bytes | str]:
    """One after the other: the content, or the reason why there is none."""

    async def each() -> list[bytes | str]:
        results: list[bytes | str] = []
        async with fetcher:
            for url in urls:
                try:
                    results.append(await fetcher.fetch(url))
                except BadImage as error:
                    results.append(str(error))
        return results

    return asyncio.run(each())


def reason_of(server: ImageServer, path: str = "/a.png", **limits: Any) -> str:
    """Reason that a page of the server is not fetched."""
    (result,) = fetch(fetcher(f"images.test:{server.port}", **limits), f"http://images.test:{server.port}{path}")
    assert isinstance(result, str), "it was fetched"
    return result
