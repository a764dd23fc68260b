"""Access control: callers need the token; without one, only programs of this machine are served.

That a request comes in over loopback is not enough: `kubectl port-forward` and proxies arrive there too, and so does a
page in a browser whose name was made to resolve to 127.0.0.1. So a token that is set is always asked for, and without
one the `Host` that was called has to be this machine as well.
"""

import hmac
import ipaddress
import socket

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rubricworks.platform_api.settings import ApiSettings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What a kubelet asks, which has no token."""


class Access:
    """ASGI middleware that refuses requests without access, before any route is looked up."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            return await self.app(scope, receive, send)
        refusal = refusal_of(scope, scope["app"].state.settings)
        if refusal is None:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": refusal})
        answer = JSONResponse({"error": refusal}, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        return await answer(scope, receive, send)


def refusal_of(scope: Scope, settings: ApiSettings) -> str | None:
    """Reason to refuse a request; None if it may pass."""
    headers = dict(scope["headers"])
    if settings.token is None:
        called = _without_port(headers.get(b"host", b"").decode("latin-1"))
        if is_loopback((scope.get("server") or ("",))[0]) and (called == "localhost" or is_loopback(called)):
            return None
        return "this service has no token, so it answers only programs of its own machine; set RUBRICWORKS_API_TOKEN"
    kind, _, given = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), settings.token.get_secret_value().encode()):
        return None
    return "a token is needed: send `Authorization: Bearer <RUBRICWORKS_API_TOKEN>`"


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


def _without_port(host: str) -> str:
    """The name or address in a `Host` header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
