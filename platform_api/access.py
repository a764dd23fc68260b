"""Access control: each request gets a principal, and each route names the right that it needs.

Who calls, in this order: a bearer token (the environment's, which is an admin, one of the database, or a service
account's, which the cluster reviews), the cookie of a browser that logged in, or, where no token is configured at all,
a program of this machine. A loopback connection alone is not sufficient: `kubectl port-forward`, proxies and pages
whose name resolves to 127.0.0.1 (DNS rebinding) use one too, so the request's `Host` must be this machine as well, no
proxy may say that it passes the request on, and a configured token is always required.

Where people log in at an identity provider, the environment's token is for emergencies: the audit log has each change
that is made with it, and the first of its other requests in each quarter of an hour, before they are answered.

A browser sends its cookie, or its loopback connection, with requests that other sites make. What changes something is
therefore refused unless the browser says that it comes from this service's own pages: by `Sec-Fetch-Site`, which knows
the address that the browser sees, or else by an `Origin` that is this service's public address or the request's `Host`.
"""

import hmac
import logging
import socket
import time
from collections import OrderedDict
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request
from sqlalchemy.exc import DatabaseError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rubricworks.environment import is_loopback
from rubricworks.platform_api.problems import Problem, database_fault, problem_response
from rubricworks.platform_api.services.access import sessions, tokens
from rubricworks.platform_api.services.access.audit_log import record
from rubricworks.platform_api.services.access.principals import Principal, Right
from rubricworks.platform_api.services.metrics import BREAK_GLASS
from rubricworks.platform_api.settings import ApiSettings

_MINUTE = 60
_MOST_CALLERS = 10_000
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths of the kubelet's probes, which have no token."""
LOGIN, LOGOUT = "/login", "/logout"
LOGIN_START, LOGIN_CALLBACK = "/login/start", "/login/callback"
_BREAK_GLASS_SECONDS = 900.0
LONGEST_RETURN = 2_000
"""Characters of the address that a login leads back to; of a longer one the query is left out."""
STATIC = "/static/"
SESSION_COOKIE = "rubricworks_session"
LOCAL = Principal("local", "admin")
"""A program of this machine, on a service without a token."""
ENVIRONMENT = Principal("environment", "admin")
"""Principal of the token in the service's environment."""
_PASSED_ON = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers with which a proxy names the origin of a request."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSALS_A_MINUTE = 60
"""Wrong tokens that one address may send in a minute, also to log in."""
_log = logging.getLogger(__name__)


class Access:
    """ASGI middleware that finds the principal, and refuses unauthenticated requests before routing."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._refusals, self._requests = RequestCounts(), RequestCounts()
        self._glass_broken_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN_PATHS:
            return await self.app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008, "reason": "there are no websockets here"})
        headers = headers_of(scope)
        try:
            answer = await self._refusal(scope, headers)
        except Problem as problem:  # the application's own handlers stand behind this
            answer = problem_response(problem.status, problem.title, problem.detail)
        except (DatabaseError, NoConnection) as error:
            answer = await database_fault(Request(scope), error)
        if answer is not None:
            return await answer(scope, receive, send)
        if scope["path"] == LOGIN and scope["method"] == "POST":
            return await self._log_in(scope, receive, send)
        return await self.app(scope, receive, send)

    async def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        settings: ApiSettings = scope["app"].state.settings
        if scope["method"] not in _SAFE and not is_same_origin(headers, settings.public_url):
            detail = (
                "the request comes from a page of another site; use this service's own pages, or a token (behind a "
                "proxy, set RUBRICWORKS_PUBLIC_URL to the address that browsers use)"
            )
            return problem_response(403, "Forbidden", detail)
        state = scope.setdefault("state", {})
        state["principal"] = None  # as a problem's page is drawn for
        state["principal"] = principal = await principal_of(scope)
        if (answer := self._too_many_requests(scope, principal)) is not None:
            return answer
        if principal is not None or is_open(scope["path"]):
            await self._log_break_glass(scope, principal)
            return None
        is_page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
        if "authorization" in headers:
            if (answer := self._too_many_refusals(scope)) is not None:
                return answer
        elif is_page and not (settings.token is None and is_passed_on(headers)):
            return RedirectResponse(f"{LOGIN}?next={quote(_own_address(scope))}", status_code=303)
        detail = refusal_of(settings, headers)
        return problem_response(401, "Unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})

    async def _log_break_glass(self, scope: Scope, principal: Principal | None) -> None:
        """Log a use of the environment's token where people log in; a request that cannot be logged is not answered."""
        state = scope["app"].state
        project = state.settings.project
        if principal != ENVIRONMENT or project is None or project.login is None:
            return
        now = time.monotonic()
        if scope["method"] in _SAFE and now - self._glass_broken_at < _BREAK_GLASS_SECONDS:
            return
        async with state.database.session() as session:
            record(session, principal, BREAK_GLASS, f"{scope['method']} {scope['path']}"[:300], address=_address(scope))
        self._glass_broken_at = now
        _log.warning("RUBRICWORKS_API_TOKEN was used: %s %s", scope["method"], scope["path"])

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count logins with a wrong token, as requests with one."""
        is_refused = False

        async def send_counted(message: Message) -> None:
            nonlocal is_refused
            if message["type"] == "http.response.start" and message["status"] == 401:
                answer = self._too_many_refusals(scope)
                if answer is not None:
                    is_refused = True
                    await answer(scope, receive, send)
            if not is_refused:
                await send(message)

        await self.app(scope, receive, send_counted)

    def _too_many_requests(self, scope: Scope, principal: Principal | None) -> Response | None:
        """Count a request; refuse it above the limit. Programs of this machine and files of pages are not counted."""
        if principal == LOCAL or scope["path"].startswith(STATIC):
            return None
        limit: int = scope["app"].state.settings.requests_a_minute
        caller = f"token {principal.name}" if principal else f"address {_address(scope)}"
        if self._requests.add(caller) <= limit:
            return None
        wait = self._requests.wait(caller)
        who = principal.name if principal else "this address"
        detail = f"{who} made more than {limit} requests in a minute; go on in {wait} s (RUBRICWORKS_REQUESTS_A_MINUTE)"
        return problem_response(429, "Too many requests", detail, headers={"Retry-After": str(wait)})

    def _too_many_refusals(self, scope: Scope) -> Response | None:
        """Count a wrong token; refuse the address once it sent too many."""
        if self._refusals.add(_address(scope)) <= _REFUSALS_A_MINUTE:
            return None
        detail = "too many requests with a wrong token came from this address; wait a minute"
        wait = str(self._refusals.wait(_address(scope)))
        return problem_response(429, "Too many requests", detail, headers={"Retry-After": wait})


class RequestCounts:
    """Counts of one kind of request; each caller's minute begins with its first request."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def add(self, caller: str) -> int:
        """Count a request; return how many the caller has made in its minute."""
        now = time.monotonic()
        begin, count = self._counts.pop(caller, (now, 0))
        if now - begin >= _MINUTE:
            begin, count = now, 0
        self._counts[caller] = (begin, count + 1)
        while len(self._counts) > _MOST_CALLERS:
            self._counts.popitem(last=False)
        return count + 1

    def wait(self, caller: str) -> int:
        """Seconds until the caller's next minute begins, at least 1."""
        begin, _ = self._counts.get(caller, (time.monotonic() - _MINUTE, 0))
        return max(1, round(begin + _MINUTE - time.monotonic()))


def is_open(path: str) -> bool:
    """Return True for paths that need no login: probes, the login and logout pages, static files."""
    return path in (*OPEN_PATHS, LOGIN, LOGIN_START, LOGIN_CALLBACK, LOGOUT) or path.startswith(STATIC)


def requires(right: Right) -> Any:
    """Dependency of a route that returns the principal, who must have the right.

    The application refuses to start with a route that has no such dependency.
    """

    async def check(request: Request) -> Principal:  # FastAPI would give a plain function a thread
        principal: Principal = request.state.principal
        if not principal.may(right):
            scope = f"{'an' if principal.scope[0] in 'ao' else 'a'} {principal.scope}"
            raise Problem(403, "Forbidden", f"{principal.name} is {scope}; this needs the right to {right.value}")
        return principal

    check.right = right  # type: ignore[attr-defined]
    return check


def headers_of(scope: Scope) -> dict[str, str]:
    """Headers of a request by their names in small letters; HTTP/2 and proxies may send several lines of cookies."""
    headers: dict[str, str] = {}
    for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]):
        headers[name] = f"{headers[name]}; {value}" if name == "cookie" and name in headers else value
    return headers


async def principal_of(scope: Scope) -> Principal | None:
    """The caller of a request; None if it is unknown."""
    headers, state = headers_of(scope), scope["app"].state
    settings: ApiSettings = state.settings
    if headers.get("authorization"):
        secret = bearer_secret(headers)
        if not secret:
            return None
        if is_environment_token(settings, secret.encode("latin-1")):
            return ENVIRONMENT
        if secret.count(".") == 2 and state.token_reviews is not None:  # a signed token, as service accounts have
            reviewed: Principal | None = await state.token_reviews.principal(secret)
            return reviewed
        if not secret.startswith(tokens.PREFIX):
            return None
        async with state.database.session() as session:
            return await tokens.principal_of_secret(session, secret)
    if cookies := session_cookies(headers):
        async with state.database.session() as session:
            return await sessions.principal_of_session(session, cookies, settings.project)
    if settings.token is None and is_local(scope, headers):
        return LOCAL
    return None


def is_environment_token(settings: ApiSettings, secret: bytes) -> bool:
    """Return True for the token of the service's environment, which is an admin and opens no session of a browser."""
    return settings.token is not None and hmac.compare_digest(secret, settings.token.get_secret_value().encode())


def refusal_of(settings: ApiSettings, headers: dict[str, str]) -> str:
    """Reason to refuse a request without a principal."""
    if bearer_secret(headers):
        of = f", or of another project than {settings.project.name}" if settings.project else ""
        how = "an admin makes a new one: `rubricworks tokens create NAME`"
        return f"the token is unknown, revoked or expired{of}; {how}"
    if settings.token is None and is_passed_on(headers):
        return (
            "a proxy passed this request on, and this service has no token, so it answers only programs of its own "
            "machine; set RUBRICWORKS_API_TOKEN"
        )
    if settings.token is None:
        return "this service has no token, so it answers only programs of its own machine; set RUBRICWORKS_API_TOKEN"
    return "a token is needed: send `Authorization: Bearer <RUBRICWORKS_API_TOKEN>`"


def bearer_secret(headers: dict[str, str]) -> str:
    """Secret of a bearer token; empty if the request has none."""
    kind, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else ""


def session_cookies(headers: dict[str, str]) -> list[str]:
    """Values of the session's cookie: another one of its name may come from the domain above.

    Cookies of other applications hold anything, so nothing but `;` and the first `=` is read (RFC 6265, 5.4).
    """
    cookies = (cookie.partition("=") for cookie in headers.get("cookie", "").split(";"))
    return [value.strip() for name, _, value in cookies if name.strip() == SESSION_COOKIE and value.strip()]


def is_same_origin(headers: dict[str, str], public_url: str | None) -> bool:
    """Return True unless a browser marks the request as coming from another site."""
    if "sec-fetch-site" in headers:
        return headers["sec-fetch-site"] in ("same-origin", "none")
    if "origin" not in headers:
        return True
    try:
        origin = _scheme_host_port(headers["origin"])
        host = _scheme_host_port(f"{origin[0]}://{headers.get('host', '')}")
    except ValueError:  # half of an IPv6 address, or a port that is none
        return False
    return bool(origin[1]) and origin in (host, public_url and _scheme_host_port(public_url))


def is_sent_over_https(scope: Scope) -> bool:
    """Return True if a browser sent the request over HTTPS, which may have ended at a proxy.

    A form's `Origin` tells; without one the service's public address does.
    """
    settings: ApiSettings = scope["app"].state.settings
    origin = headers_of(scope).get("origin", "null")
    address = origin if origin != "null" else settings.public_url or ""
    return scope["scheme"] == "https" or address.startswith("https://")


def _scheme_host_port(url: str) -> tuple[str, str | None, int | None]:
    """Origin of a URL, in which a scheme's own port may be written or not.

    Raises:
        ValueError: the URL is damaged.
    """
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def is_local(scope: Scope, headers: dict[str, str]) -> bool:
    """Return True for a program of this machine that asked for this machine."""
    host = _strip_port(headers.get("host", ""))
    if is_passed_on(headers):
        return False
    return is_loopback((scope.get("server") or ("",))[0]) and (host == "localhost" or is_loopback(host))


def is_passed_on(headers: dict[str, str]) -> bool:
    """Return True if a proxy marks the request as forwarded."""
    return any(name in headers for name in _PASSED_ON)


def binds_to_loopback(host: str) -> bool:
    """Return True if a server on `host` can only be reached from this machine.

    Raises:
        OSError: the name cannot be resolved.
    """
    return bool(host) and all(is_loopback(address[4][0]) for address in socket.getaddrinfo(host, None))


def _own_address(scope: Scope) -> str:
    """Path and query of a request, as a link of this service has them."""
    path, query = quote(scope["path"]), scope["query_string"].decode("latin-1")
    address = f"{path}?{query}" if query else path
    return address if len(address) <= LONGEST_RETURN else path


def _address(scope: Scope) -> str:
    """Address of the caller's machine."""
    return str((scope.get("client") or ("",))[0])


def _strip_port(host: str) -> str:
    """Name or address in a `Host` header."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
