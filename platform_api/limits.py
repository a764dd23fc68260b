"""Limits and headers of every response, and responses without a body."""

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rubricworks.platform_api.problems import problem_answer, problem_response

MAX_BODY = 2 * 1024 * 1024
"""Bytes of a request's body."""
MAX_RECIPE, MAX_CHANGES = 50_000, 100
"""Characters of a submitted recipe, and of its changes together; and those. The package's longest has 8,389."""
_TOO_LARGE = f"a body has at most {MAX_BODY} bytes"
_TWO_LENGTHS = "the body has a length and is chunked too; send it with a Content-Length, or chunked"
_HEADERS = {
    b"content-security-policy": b"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}


class BodyLimit:
    """ASGI middleware that refuses bodies above `MAX_BODY` before they are read whole, and those of two lengths."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = dict(scope["headers"])
        if b"content-length" in headers and b"transfer-encoding" in headers:
            # A proxy that goes by the other one would take the next request for a part of this body (RFC 9112, 6.1).
            close = {"Connection": "close"}
            return await problem_response(400, "Bad request", _TWO_LENGTHS, headers=close)(scope, receive, send)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > MAX_BODY:
            answer = problem_answer(Request(scope), 413, "Body too large", _TOO_LARGE)
            return await answer(scope, receive, send)
        count = 0

        async def receive_some() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > MAX_BODY:
                raise HTTPException(413, _TOO_LARGE)
            return message

        await self.app(scope, receive_some, send)


class HeadRequests:
    """ASGI middleware that answers HEAD as GET, with every check and without the body; streams end at once."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            return await self.app(scope, receive, send)

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})  # a stream sees a caller who has hung up

        await self.app({**scope, "method": "GET"}, receive, send_head)


class SecurityHeaders:
    """ASGI middleware that gives every answer the headers by which browsers protect its pages.

    Redirects lead to paths of this service: Starlette builds some of the request's scheme and `Host`, which are a
    proxy's or anybody's. Only a route that says so (`leads_out`) sends a browser elsewhere, to log in.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                is_own = not scope.get("state", {}).get("leads_out")
                known = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *(
                        (name, _path_of(value) if name == b"location" and is_own else value)
                        for name, value in message["headers"]
                    ),
                    *((name, value) for name, value in _HEADERS.items() if name not in known),
                ]
            await send(message)

        await self.app(scope, receive, send_with_headers)


def _path_of(location: bytes) -> bytes:
    """Path and query of a redirect's target."""
    target = urlsplit(location.decode("latin-1"))
    path = "/" + target.path.lstrip("/\\")
    return urlunsplit(("", "", path, target.query, target.fragment)).encode("latin-1")
