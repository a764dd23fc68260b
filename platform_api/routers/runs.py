"""Routes of runs: list, show, steps, logs, events."""

import asyncio
import json
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse

from rubricworks.platform_api.cursors import decode_cursor, decode_time, encode_cursor
from rubricworks.platform_api.event_streams import event_stream
from rubricworks.platform_api.routers.dependencies import PROBLEMS, Cursor, Limit, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.tagged_route import TaggedRoute
from rubricworks.platform_api.schemas.runs import LogBody, RunBody, RunPage, State, StepStatistics
from rubricworks.platform_api.services import runs

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], responses=PROBLEMS, route_class=TaggedRoute)
RunName = Annotated[str, Path(min_length=1, max_length=200, examples=["quickstart-20261123-020900"])]
StageName = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[\w-]+$", examples=["train_policy"])]
_EVENT_SECONDS = 1.0
_EVENTS_FOR_SECONDS = 600.0
"""Lifetime of a stream of events; browsers connect again by themselves."""


@router.get("", summary="List runs, the last changed first")
async def list_runs(
    session: SessionOf,
    viewer: Viewer,
    state: State | None = None,
    recipe: Annotated[str | None, Query(max_length=200)] = None,
    search: Annotated[str | None, Query(max_length=200, description="Part of a name")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> RunPage:
    found = await runs.list_runs(
        session, state=state, recipe=recipe, search=search, before=run_cursor(cursor), limit=limit + 1
    )
    last = found[limit - 1] if len(found) > limit else None
    return RunPage(
        items=[RunBody.model_validate(run) for run in found[:limit]],
        next_cursor=encode_cursor(last.changed.isoformat(), last.name) if last else None,
    )


@router.get("/{run}", summary="Show a run")
async def show_run(run: RunName, session: SessionOf, viewer: Viewer) -> RunBody:
    return RunBody.model_validate(await runs.get_run(session, run))


@router.get("/{run}/stages/{stage}/steps", summary="Statistics of a training's steps")
async def list_steps(
    run: RunName,
    stage: StageName,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    after: Annotated[int, Query(ge=0, lt=1 << 31, description="Last step that is known already")] = 0,
) -> list[StepStatistics]:
    await runs.get_run(session, run)
    return await runs.read_steps(store, run, stage, after)


@router.get("/{run}/stages/{stage}/log", summary="End of a stage's log")
async def show_log(run: RunName, stage: StageName, session: SessionOf, store: StoreOf, viewer: Viewer) -> LogBody:
    await runs.get_run(session, run)
    return LogBody(stage=stage, text=await runs.read_log(store, run, stage))


@router.get(
    "/{run}/events",
    summary="Changes of a run, as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "An event `run` with each change"}},
)
async def follow_run(run: RunName, request: Request, session: SessionOf, viewer: Viewer) -> StreamingResponse:
    await runs.get_run(session, run)
    return event_stream(request, _events(request, run))


async def _events(request: Request, name: str) -> AsyncGenerator[str | None]:
    database, last = request.app.state.database, None
    for _ in range(int(_EVENTS_FOR_SECONDS / _EVENT_SECONDS)):
        async with database.session() as session:
            run = RunBody.model_validate(await runs.get_run(session, name))
        if run != last:
            last = run
            yield f"event: run\ndata: {json.dumps(run.model_dump(mode='json'))}\n\n"
        else:
            yield None
        if run.state != "going":
            return
        await asyncio.sleep(_EVENT_SECONDS)


def run_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """Time and name of the run after which a page begins."""
    if cursor is None:
        return None
    changed, name = decode_cursor(cursor, str, str)
    return decode_time(changed), name
