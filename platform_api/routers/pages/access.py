"""Pages of tokens, the audit log, and logging in and out."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.platform_api.access import (
    LONGEST_RETURN,
    SESSION_COOKIE,
    headers_of,
    is_environment_token,
    is_sent_over_https,
    session_cookies,
)
from rubricworks.platform_api.routers.dependencies import Admin, DrawnPageOf, SessionOf, Viewer
from rubricworks.platform_api.routers.keyed_route import FormRoute, form_fields
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.services.access import audit_log, tokens

router = APIRouter(include_in_schema=False, route_class=FormRoute)
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
    return draw_page(request, admin, "tokens.html", tokens=page, with_runs=runs)


@router.get("/changes")
async def changes_page(request: Request, session: SessionOf, viewer: Viewer, asked: DrawnPageOf) -> Response:
    return draw_page(request, viewer, "changes.html", changes=await audit_log.list_changes(session, asked))


@router.get("/login")
async def login_page(request: Request, next: Annotated[str, Query(max_length=LONGEST_RETURN)] = "/") -> Response:
    return draw_page(request, None, "login.html", next=_own_path(next), problem="")


@router.post("/login")
async def log_in(request: Request, session: SessionOf) -> Response:
    fields = await form_fields(request)
    secret, target = fields.get("token", ""), _own_path(fields.get("next", "/"))
    principal = await tokens.principal_of_secret(session, secret)
    if principal is None:
        is_of_programs = is_environment_token(request.app.state.settings, secret.encode("utf-8", "surrogatepass"))
        problem = _NOBODY if is_of_programs else _UNKNOWN
        return draw_page(request, None, "login.html", status=401, next=target, problem=problem)
    key = await FormRoute.key_of(request) or ""
    cookie = await tokens.open_session(session, principal, secret, key)
    answer = RedirectResponse(target, status_code=303)
    answer.set_cookie(
        SESSION_COOKIE,
        cookie,
        max_age=tokens.SESSION_HOURS * 3600,
        httponly=True,
        samesite="strict",
        secure=is_sent_over_https(request.scope),
    )
    return answer


@router.post("/logout")
async def log_out(request: Request, session: SessionOf) -> Response:
    await tokens.close_session(session, session_cookies(headers_of(request.scope)))
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


def _own_path(target: str) -> str:
    """A path of this service; anything that a browser would take for another site becomes `/`."""
    is_own = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_own else "/"
