"""Access control: every request gets a principal, and every route says which right it asks for.

Who calls, in this order: a bearer token (the environment's, which is an admin, or one of the database), the cookie of a
browser that logged in with one, or, where no token is configured at all, a program of this machine. A loopback
connection alone is not sufficient: `kubectl port-forward`, proxies and pages whose name resolves to 127.0.0.1 (DNS
rebinding) use one too, so the request's `Host` must be this machine as well, and a configured token is always required.

A browser sends its cookie, or its loopback connection, with requests that other sites make. What changes something is
therefore refused unless the browser says that it comes from this service's own pages (`Sec-Fetch-Site`, `Origin`).
"""

import hmac
import ipaddress
import socket
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rubricworks.platform_api.problems import Problem, problem_response
from rubricworks.platform_api.services.access import tokens
from rubricworks.platform_api.services.access.principals import Principal, Right
from rubricworks.platform_api.settings import ApiSettings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths of the kubelet's probes, which have no token."""
LOGIN = "/login"
STATIC = "/static/"
SESSION_COOKIE = "rubricworks_session"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSALS_A_MINUTE = 60
"""Wrong tokens that one address may send in a minute."""


class Access:
    """ASGI middleware that finds the principal, and refuses unauthenticated requests before routing."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._refusals: OrderedDict[str, list[float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": "there are no websockets here"})
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        answer = await self._refusal(scope, headers)
        if answer is not None:
            return await answer(scope, receive, send)
        return await self.app(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        if scope["method"] not in _SAFE and not is_same_origin(headers):
            detail = "the request comes from a page of another site; use this service's own pages, or a token"
            return problem_response(403, "Forbidden", detail)
        scope.setdefault("state", {})["principal"] = await principal_of(scope, headers)
        if scope["state"]["principal"] is not None or is_open(scope["path"]):
            return None
        if "authorization" in headers:
            if self._count_refusals((scope.get("client") or ("",))[0]) > _REFUSALS_A_MINUTE:
                detail = "too many requests with a wrong token came from this address; wait a minute"
                return problem_response(429, "Too many requests", detail, headers={"Retry-After": "60"})
        elif scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(f"{LOGIN}?next={quote(scope['path'])}", status_code=303)
        detail = refusal_of(scope["app"].state.settings)
        return problem_response(401, "Unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})

    def _count_refusals(self, address: str) -> int:
        """Count a wrong token; return how many came from the address within a minute."""
        recent = [at for at in self._refusals.pop(address, []) if at > time.monotonic() - 60]
        self._refusals[address] = [*recent[-_REFUSALS_A_MINUTE:], time.monotonic()]
        while len(self._refusals) > 10_000:
            self._refusals.popitem(last=False)
        return len(self._refusals[address])


def is_open(path: str) -> bool:
    """Return True for what a kubelet asks, and a browser that has not logged in."""
    return path in OPEN_PATHS or path == LOGIN or path.startswith(STATIC)


def requires(right: Right) -> Any:
    """Dependency of a route that returns the principal, who must have the right.

    The application refuses to start with a route that has no such dependency.
    """

    async def check(request: Request) -> Principal:  # FastAPI would give a plain function a thread
        principal: Principal = request.state.principal
        if not principal.may(right):
            raise Problem(
                403, "Forbidden", f"{principal.name} is a {principal.scope}; this needs the right to {right.value}"
            )
        return principal

    check.right = right  # type: ignore[attr-defined]
    return check


async def principal_of(scope: Scope, headers: dict[str, str]) -> Principal | None:
    """The caller of a request; None if it is unknown."""
    state = scope["app"].state
    settings: ApiSettings = state.settings
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind:
        secret = secret.strip()
        if kind.lower() != "bearer" or not secret:
            return None
        if settings.token and hmac.compare_digest(secret.encode("latin-1"), settings.token.get_secret_value().encode()):
            return Principal("environment", "admin")
        if not secret.startswith(tokens.PREFIX):
            return None
        async with state.database.session() as session:
            return await tokens.principal_of_secret(session, secret)
    if cookie := session_cookie(headers):
        async with state.database.session() as session:
            return await tokens.principal_of_session(session, cookie)
    if settings.token is None and is_local(scope, headers):
        return Principal("local", "admin")
    return None


def refusal_of(settings: ApiSettings) -> str:
    """Reason to refuse a request without a principal."""
    if settings.token is None:
        return "this service has no token, so it answers only programs of its own machine; set RUBRICWORKS_API_TOKEN"
    return "a token is needed: send `Authorization: Bearer <RUBRICWORKS_API_TOKEN>`"


def session_cookie(headers: dict[str, str]) -> str | None:
    """Value of the session's cookie."""
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(SESSION_COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel else None


def is_same_origin(headers: dict[str, str]) -> bool:
    """Return True unless a browser says that the request comes from another site."""
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def is_local(scope: Scope, headers: dict[str, str]) -> bool:
    """Return True for a program of this machine that asked for this machine."""
    host = _strip_port(headers.get("host", ""))
    return is_loopback((scope.get("server") or ("",))[0]) and (host == "localhost" or is_loopback(host))


def binds_to_loopback(host: str) -> bool:
    """Return True if a server that listens on `host` can be reached from this machine alone.

    Raises:
        OSError: the name cannot be resolved.
    """
    return bool(host) and all(is_loopback(address[4][0]) for address in socket.getaddrinfo(host, None))


def is_loopback(address: object) -> bool:
    """Return True if `address` is a loopback address."""
    try:
        return ipaddress.ip_address(str(address)).is_loopback
    except ValueError:
        return False


def _strip_port(host: str) -> str:
    """Name or address in a `Host` header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
