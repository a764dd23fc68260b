"""Access control: callers need the token; without a token, only programs of this machine are served.

A loopback connection is not sufficient: `kubectl port-forward`, proxies and pages whose name resolves to 127.0.0.1
(DNS rebinding) use one too. A configured token is therefore always required, and without a token the request's `Host`
must be this machine as well.
"""

import hmac
import ipaddress
import socket

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rubricworks.platform_api.settings import ApiSettings

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths of the kubelet's probes, which have no token."""


class Access:
    """ASGI middleware that refuses unauthorised requests before routing."""

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
        host = _strip_port(headers.get(b"host", b"").decode("latin-1"))
        if is_loopback((scope.get("server") or ("",))[0]) and (host == "localhost" or is_loopback(host)):
            return None
        return "this service has no token, so it answers only programs of its own machine; set RUBRICWORKS_API_TOKEN"
    kind, _, token = headers.get(b"authorization", b"").partition(b" ")
    if kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), settings.token.get_secret_value().encode()):
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


def _strip_port(host: str) -> str:
    """Name or address in a `Host` header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
