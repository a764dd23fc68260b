"""Pages of tokens and sessions, the project, the audit log, and logging in and out."""

import hmac
import logging
from typing import Annotated
from urllib.parse import quote, unquote

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.platform_api.access import (
    LOGIN,
    LOGIN_CALLBACK,
    LOGIN_START,
    LOGOUT,
    LONGEST_RETURN,
    SESSION_COOKIE,
    headers_of,
    is_environment_token,
    is_sent_over_https,
    session_cookies,
)
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.routers.access import TokenName
from rubricworks.platform_api.routers.dependencies import Admin, DrawnPageOf, SessionOf, Viewer
from rubricworks.platform_api.routers.keyed_route import FormRoute, form_fields
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.services.access import audit_log, sessions, tokens
from rubricworks.platform_api.services.access.identity_provider import (
    Attempt,
    Identity,
    IdentityProvider,
    LoginRefused,
    ProviderAway,
)
from rubricworks.platform_api.services.project_use import project_use
from rubricworks.redaction import redact

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_ATTEMPT_COOKIE = "rubricworks_login"
_ATTEMPT_SECONDS = 600
_log = logging.getLogger(__name__)
_FOR_PROGRAMS = "Programs call with a token. People log in with their organisation's account, by the link below."
_UNKNOWN = "This token is unknown, revoked or expired."
_NOBODY = (
    "This is RUBRICWORKS_API_TOKEN, with which programs call and nobody logs in. The command above makes a token with "
    "a name, which the log of changes tells; with --scope admin it has all rights."
)


@router.get("/tokens")
async def tokens_page(
    request: Request, session: SessionOf, admin: Admin, asked: DrawnPageOf, runs: bool = False
) -> Response:
    page = await tokens.list_tokens(session, asked, with_runs=runs)
    people = (await sessions.list_sessions(session, PageRequest(limit=200))).items
    return draw_page(request, admin, "tokens.html", tokens=page, with_runs=runs, sessions=people)


@router.post("/sessions/{person}/end")
async def end_sessions(person: TokenName, session: SessionOf, admin: Admin) -> Response:
    await sessions.end_persons_sessions(session, admin, person)
    return RedirectResponse("/tokens", status_code=303)


@router.get("/project")
async def project_page(request: Request, session: SessionOf, viewer: Viewer) -> Response:
    use = await project_use(session, request.app.state.settings.project)
    return draw_page(request, viewer, "project.html", use=use)


@router.get("/changes")
async def changes_page(request: Request, session: SessionOf, viewer: Viewer, asked: DrawnPageOf) -> Response:
    return draw_page(request, viewer, "changes.html", changes=await audit_log.list_changes(session, asked))


@router.get(LOGIN)
async def login_page(
    request: Request,
    next: Annotated[str, Query(max_length=LONGEST_RETURN)] = "/",
    ended: Annotated[bool, Query(description="A person has just logged out")] = False,
) -> Response:
    provider = provider_of(request)
    leave = None
    if ended and provider is not None:
        leave = await provider.logout_url(provider.redirect_uri.removesuffix(LOGIN_CALLBACK) + LOGIN)
    return _login_page(request, next=_own_path(next), leave=leave, ended=ended)


@router.post(LOGIN)
async def log_in(request: Request, session: SessionOf) -> Response:
    fields = await form_fields(request)
    secret, target = fields.get("token", ""), _own_path(fields.get("next", "/"))
    if provider_of(request) is not None:
        return _login_page(request, status=403, next=target, problem=_FOR_PROGRAMS)
    principal = await tokens.principal_of_secret(session, secret)
    if principal is None:
        is_of_programs = is_environment_token(request.app.state.settings, secret.encode("utf-8", "surrogatepass"))
        return _login_page(request, status=401, next=target, problem=_NOBODY if is_of_programs else _UNKNOWN)
    key = await FormRoute.key_of(request) or ""
    cookie = await sessions.open_session(session, principal, secret, key)
    answer = RedirectResponse(target, status_code=303)
    _set_session(request, answer, cookie, sessions.TOKEN_HOURS)
    return answer


@router.get(LOGIN_START)
async def start_login(request: Request, next: Annotated[str, Query(max_length=LONGEST_RETURN)] = "/") -> Response:
    provider = provider_of(request)
    if provider is None:
        return RedirectResponse(LOGIN, status_code=303)
    attempt = Attempt.new()
    try:
        address = await provider.authorisation_url(attempt)
    except ProviderAway as problem:
        return _login_page(request, status=problem.status, next=_own_path(next), problem=problem.detail)
    request.state.leads_out = True
    answer = RedirectResponse(address, status_code=303, headers={"Cache-Control": "no-store"})
    answer.set_cookie(
        _ATTEMPT_COOKIE,
        f"{attempt}.{quote(_own_path(next), safe='')}",
        max_age=_ATTEMPT_SECONDS,
        path=LOGIN_CALLBACK,
        httponly=True,
        samesite="lax",  # the provider's page leads back
        secure=is_sent_over_https(request.scope),
    )
    return answer


@router.get(LOGIN_CALLBACK)
async def finish_login(
    request: Request,
    session: SessionOf,
    state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4_000)] = "",
    error: Annotated[str, Query(max_length=200)] = "",
    iss: Annotated[str | None, Query(max_length=1_000)] = None,
) -> Response:
    provider = provider_of(request)
    if provider is None:
        return RedirectResponse(LOGIN, status_code=303)
    attempt, _, target = request.cookies.get(_ATTEMPT_COOKIE, "").rpartition(".")
    target, opened = _own_path(unquote(target) or "/"), None
    try:
        identity = await _identity(provider, Attempt.read(attempt), state, code, error, iss)
        opened = await sessions.open_persons_session(session, request.app.state.settings.project, identity)
    except (LoginRefused, ProviderAway) as problem:
        _log.warning("a login was refused: %s", problem.detail)
        answer: Response = _login_page(request, status=problem.status, next=target, problem=problem.detail)
    else:
        # A redirect would still be a part of the provider's navigation, in which no browser sends a strict cookie.
        answer = draw_page(request, None, "logged_in.html", target=target)
    answer.delete_cookie(_ATTEMPT_COOKIE, path=LOGIN_CALLBACK)
    if opened is not None:
        _set_session(request, answer, opened, provider.login.session_hours)
    return answer


@router.post(LOGOUT)
async def log_out(request: Request, session: SessionOf) -> Response:
    await sessions.close_session(session, session_cookies(headers_of(request.scope)))
    is_person = request.state.principal is not None and request.state.principal.is_person
    answer = RedirectResponse(f"{LOGIN}?ended=true" if is_person else LOGIN, status_code=303)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


def provider_of(request: Request) -> IdentityProvider | None:
    """The identity provider at which people log in, if there is one."""
    provider: IdentityProvider | None = request.app.state.provider
    return provider


async def _identity(
    provider: IdentityProvider, attempt: Attempt | None, state: str, code: str, error: str, iss: str | None
) -> Identity:
    """Return the person that the provider sent back.

    Raises:
        LoginRefused: nobody of this browser's login.
        ProviderAway: it does not answer.
    """
    if attempt is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise LoginRefused("this is no login that this browser began within the last ten minutes; begin again")
    if iss is not None and iss != provider.login.issuer:  # RFC 9207
        raise LoginRefused("another identity provider sent this answer; begin again")
    if error or not code:
        raise LoginRefused(f"the identity provider refuses ({redact(error) or 'it sent no code'}); begin again")
    return await provider.redeem(attempt, code)


def _login_page(
    request: Request,
    *,
    status: int = 200,
    next: str = "/",
    problem: str = "",
    leave: str | None = None,
    ended: bool = False,
) -> Response:
    project = request.app.state.settings.project
    return draw_page(
        request,
        None,
        "login.html",
        status=status,
        next=next,
        problem=problem,
        project=project,
        leave=leave,
        ended=ended,
    )


def _set_session(request: Request, answer: Response, cookie: str, hours: float) -> None:
    answer.set_cookie(
        SESSION_COOKIE,
        cookie,
        max_age=round(hours * 3600),
        httponly=True,
        samesite="strict",
        secure=is_sent_over_https(request.scope),
    )


def _own_path(target: str) -> str:
    """A path of this service; anything that a browser would take for another site becomes `/`."""
    is_own = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_own else "/"
