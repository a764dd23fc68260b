"""Streams of a run that is going: the lines of a stage's log, as server-sent events."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from rubricworks.platform_api.event_streams import event_stream
from rubricworks.platform_api.routers.dependencies import PROBLEMS, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.services import runs
from rubricworks.runs.store import RunStore

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], responses=PROBLEMS)
_SECONDS = 1.0
_FOR_SECONDS = 600.0
"""Lifetime of a stream; browsers connect again by themselves, and name the last line that they have."""


@router.get(
    "/{run}/stages/{stage}/log/events",
    summary="Lines of a stage's log as they come, as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "An event `lines` with each write"}},
)
async def follow_log(
    run: RunName,
    stage: StageName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    after: Annotated[int, Query(ge=0, lt=1 << 53, description="Bytes that are known already")] = 0,
) -> StreamingResponse:
    await runs.get_run(session, run)
    known = request.headers.get("last-event-id", "")
    begin = int(known) if known.isdecimal() and len(known) < 17 else after
    return event_stream(request, _lines(request, store, run, stage, begin))


async def _lines(request: Request, store: RunStore, run: str, stage: str, begin: int) -> AsyncGenerator[str | None]:
    for _ in range(int(_FOR_SECONDS / _SECONDS)):
        async with request.app.state.database.session() as session:
            is_going = (await runs.get_run(session, run)).state == "going"
        text, begin = await runs.log_after(store, run, stage, begin, is_going=is_going)
        yield f"id: {begin}\nevent: lines\ndata: {json.dumps(text)}\n\n" if text else None
        if not is_going:
            yield "event: end\ndata: {}\n\n"
            return
        await asyncio.sleep(_SECONDS)
