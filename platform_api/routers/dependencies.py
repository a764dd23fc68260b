"""Parameters that routes share: the database's session, the storage of runs, pages, idempotency keys."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.access import requires
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.problems import Problem
from rubricworks.platform_api.services.access.principals import Principal, Right
from rubricworks.platform_api.services.run_storage import RunStorage
from rubricworks.runs.store import RunStore

Viewer = Annotated[Principal, Depends(requires(Right.VIEW))]
Runner = Annotated[Principal, Depends(requires(Right.RUN))]
Approver = Annotated[Principal, Depends(requires(Right.APPROVE))]
Admin = Annotated[Principal, Depends(requires(Right.ADMINISTER))]

Limit = Annotated[int, Query(ge=1, le=200, description="Items of a page at most")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before")]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A new key for each change; again for a retry",
    ),
]


def _problem_schema(status: int, title: str) -> dict[str, Any]:
    """Schema of a problem (RFC 9457)."""
    properties: dict[str, Any] = {
        "type": {"const": "about:blank"},
        "title": {"type": "string", "examples": [title]},
        "status": {"const": status},
        "detail": {"type": "string", "description": "Reason, and what to do", "examples": [_DETAILS[status]]},
    }
    required = list(properties)
    if status == 422:
        fields = [{"field": "body.days", "problem": "Input should be less than or equal to 366"}]
        properties["fields"] = {"type": "array", "items": {"type": "object"}, "examples": [fields]}
    return {"type": "object", "properties": properties, "required": required}


_DETAILS = {
    400: "the body is no JSON",
    401: "a token is needed: send `Authorization: Bearer <RUBRICWORKS_API_TOKEN>`",
    403: "this needs the right to approve, which a viewer has not",
    404: "there is no run 'nightly-8'",
    409: "promotion 7 is applied already",
    413: "a body has at most 2097152 bytes",
    422: "body.days: Input should be less than or equal to 366",
    429: "ci made more than 1200 requests in a minute; go on in 20 s",
    503: "the database does not answer; try again in a moment",
}
PROBLEMS: dict[int | str, dict[str, object]] = {
    status: {
        "description": description,
        "content": {"application/problem+json": {"schema": _problem_schema(status, description)}},
    }
    for status, description in {
        400: "Unreadable body",
        401: "No principal",
        403: "No right",
        404: "Not there",
        409: "Conflict",
        413: "Body too large",
        422: "Invalid request",
        429: "Too many requests, or wrong tokens",
        503: "A dependency is away",
    }.items()
}
"""Error answers of every route."""


async def get_database(request: Request) -> Database:
    """The database of the service."""
    database: Database = request.app.state.database
    return database


async def get_session(
    request: Request, database: Annotated[Database, Depends(get_database)]
) -> AsyncIterator[AsyncSession]:
    """The request's session, which commits before the answer is sent."""
    async with database.session() as session:
        request.state.session = session
        yield session


async def get_request_name(request: Request) -> str:
    """Name of a POST with its key, by which its work is known again after a kill; empty if the key is refused."""
    return str(getattr(request.state, "request_name", ""))


async def is_resumed(request: Request) -> bool:
    """Return True for a POST that was begun before under its key, by a service that was killed."""
    return bool(getattr(request.state, "is_resumed", False))


async def get_store(request: Request) -> RunStore:
    """The storage of the runs.

    Raises:
        Problem: none is configured, or it does not answer.
    """
    storage: RunStorage | None = request.app.state.storage
    if storage is None:
        raise Problem(503, "No runs", "this service has no storage of runs; set RUBRICWORKS_STORAGE")
    store = await storage.get()
    if store is None:
        raise Problem(503, "No runs", "the storage of runs does not answer; /readyz says why, ask again in a moment")
    return store


async def get_store_if_any(request: Request) -> RunStore | None:
    """The storage of the runs; None if none is configured, or it does not answer."""
    storage: RunStorage | None = request.app.state.storage
    return await storage.get() if storage is not None else None


SessionOf = Annotated[AsyncSession, Depends(get_session, scope="function")]
RequestName = Annotated[str, Depends(get_request_name)]
IsResumed = Annotated[bool, Depends(is_resumed)]
StoreOf = Annotated[RunStore, Depends(get_store)]
StoreIfAny = Annotated[RunStore | None, Depends(get_store_if_any)]
