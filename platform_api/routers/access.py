"""Routes of tokens, the audit log and the caller."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from rubricworks.platform_api.cursors import before_row, newest_page
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Admin,
    Cursor,
    Limit,
    SessionOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.access import (
    Caller,
    ChangeBody,
    ChangePage,
    NewToken,
    TokenBody,
    TokenPage,
    TokenRequest,
)
from rubricworks.platform_api.services.access import audit_log, tokens

router = APIRouter(prefix="/api/v1", tags=["access"], responses=PROBLEMS, route_class=KeyedRoute)
TokenName = Annotated[str, Path(min_length=1, max_length=100)]


@router.get("/caller", summary="Show who the caller is")
async def show_caller(viewer: Viewer) -> Caller:
    return Caller.model_validate({"name": viewer.name, "scope": viewer.scope})


@router.get("/tokens", summary="List tokens, the newest first")
async def list_tokens(session: SessionOf, admin: Admin, cursor: Cursor = None, limit: Limit = 50) -> TokenPage:
    before = before_row(cursor)
    found = await tokens.list_tokens(session, before=before, limit=limit + 1)
    page, next_cursor = newest_page(found, limit)
    return TokenPage(
        items=[TokenBody.model_validate(token) for token in page],
        next_cursor=next_cursor,
    )


@router.post("/tokens", status_code=201, summary="Create a token; its secret is shown once")
async def create_token(asked: TokenRequest, response: Response, session: SessionOf, admin: Admin) -> NewToken:
    response.headers["Cache-Control"] = "no-store"  # nor is the answer stored by its key
    token, secret = await tokens.create_token(session, admin, asked.name, asked.scope, asked.days)
    return NewToken.model_validate({**TokenBody.model_validate(token).model_dump(), "secret": secret})


@router.delete("/tokens/{name}", summary="Revoke a token, and end its sessions")
async def revoke_token(name: TokenName, session: SessionOf, admin: Admin) -> TokenBody:
    return TokenBody.model_validate(await tokens.revoke_token(session, admin, name))


@router.get("/changes", summary="List changes, the newest first")
async def list_changes(
    session: SessionOf,
    viewer: Viewer,
    action: Annotated[str | None, Query(max_length=50)] = None,
    subject: Annotated[str | None, Query(max_length=300)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> ChangePage:
    before = before_row(cursor)
    found = await audit_log.list_changes(session, before=before, limit=limit + 1, action=action, subject=subject)
    page, next_cursor = newest_page(found, limit)
    return ChangePage(
        items=[ChangeBody.model_validate(change) for change in page],
        next_cursor=next_cursor,
    )
