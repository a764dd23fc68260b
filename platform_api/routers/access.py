"""Routes of tokens, sessions, the audit log, the caller and its project."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    Admin,
    DatabaseOf,
    PageOf,
    SessionOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.access import (
    Caller,
    ChangeBody,
    EndedSessions,
    NewToken,
    SessionBody,
    TokenBody,
    TokenRequest,
)
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.project import ProjectUse
from rubricworks.platform_api.services.access import audit_log, sessions, tokens
from rubricworks.platform_api.services.project_use import project_use

router = APIRouter(
    prefix="/api/v1", tags=["access"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS]
)
TokenName = Annotated[str, Path(min_length=1, max_length=100)]


@router.get("/caller", summary="Show who the caller is")
async def show_caller(request: Request, viewer: Viewer) -> Caller:
    project = request.app.state.settings.project
    return Caller(name=viewer.name, scope=viewer.scope, project=project.name if project else None)


@router.get("/project", summary="Show what the project uses of its budget and quotas")
async def show_project(request: Request, session: SessionOf) -> ProjectUse:
    return await project_use(session, request.app.state.settings.project)


@router.get("/tokens", summary="List tokens, the newest first")
async def list_tokens(session: SessionOf, admin: Admin, asked: PageOf) -> Page[TokenBody]:
    return await tokens.list_tokens(session, asked)


@router.post("/tokens", status_code=201, summary="Create a token; its secret is shown once")
async def create_token(asked: TokenRequest, response: Response, session: SessionOf, admin: Admin) -> NewToken:
    response.headers["Cache-Control"] = "no-store"  # nor is the answer stored by its key
    token, secret = await tokens.create_token(session, admin, asked.name, asked.scope, asked.days)
    return NewToken.model_validate({**TokenBody.model_validate(token).model_dump(), "secret": secret})


@router.delete("/tokens/{name}", summary="Revoke a token, and end its sessions")
async def revoke_token(name: TokenName, session: SessionOf, admin: Admin) -> TokenBody:
    return TokenBody.model_validate(await tokens.revoke_token(session, admin, name))


@router.get("/sessions", summary="List sessions of people, the last one to end first")
async def list_sessions(session: SessionOf, admin: Admin, asked: PageOf) -> Page[SessionBody]:
    return await sessions.list_sessions(session, asked)


@router.delete("/sessions/{person}", summary="End all sessions of a person")
async def end_sessions(person: TokenName, session: SessionOf, admin: Admin) -> EndedSessions:
    ended = await sessions.end_persons_sessions(session, admin, person)
    return EndedSessions(person=person, sessions=ended)


@router.get("/changes", summary="List changes, the newest first")
async def list_changes(
    session: SessionOf,
    asked: PageOf,
    action: Annotated[str | None, Query(max_length=50)] = None,
    subject: Annotated[str | None, Query(max_length=300)] = None,
) -> Page[ChangeBody]:
    return await audit_log.list_changes(session, asked, action=action, subject=subject)


@router.get(
    "/changes/export",
    summary="Export the audit log as lines of JSON, the oldest change first",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {
                "application/x-ndjson": {"schema": {"type": "string", "examples": ['{"id": 17, "who": "ada"}\n']}}
            },
            "description": "A change, as `/changes` has it, each line",
        }
    },
)
async def export_changes(
    database: DatabaseOf,
    after: Annotated[int, Query(ge=0, lt=1 << 53, description="`id` of the last change that is known")] = 0,
) -> StreamingResponse:
    return StreamingResponse(audit_log.export_changes(database, after), media_type="application/x-ndjson")
