"""Routes of runs: list, show, steps, logs, dead letters, budgets, and streams of a running run.

A stream of events ends with its caller's token, and with the service. Proxies do not cut it: a comment goes out where
nothing else has for a while. Streams of one run look at it together; `streams` says how many there may be.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import Receive, Scope, Send

from rubricworks.platform_api.access import headers_of, principal_of
from rubricworks.platform_api.db.faults import describe_fault
from rubricworks.platform_api.pagination import list_page
from rubricworks.platform_api.problems import problem_answer
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    DeadFolder,
    DeadReason,
    PageOf,
    Runner,
    RunOf,
    RunsToCompare,
    RunViewOf,
    SessionOf,
    StageName,
    StoreOf,
    SubmissionsOf,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.runs import (
    ArtifactBody,
    ComparisonBody,
    CurveBody,
    DeadLetterBody,
    LetterTableBody,
    LogBody,
    NotesBody,
    NotesRequest,
    Reopened,
    RunBody,
    SpendingBody,
    StepStatistics,
)
from rubricworks.platform_api.services import (
    artifacts,
    dead_letters,
    run_comparison,
    run_figures,
    run_list,
    run_notes,
    runs,
)
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.submission.awaited_runs import AWAITED
from rubricworks.platform_api.streams import RETRY_SECONDS, Streams
from rubricworks.runs.store import RunStore

router = APIRouter(prefix="/api/v1", tags=["runs"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS])
letters_router = APIRouter(
    prefix="/api/v1", tags=["dead letters"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS]
)
_HEARTBEAT_SECONDS = 15.0
"""Silence after which a comment is sent; proxies end a connection after 30 s or more of it."""
_HEARTBEAT = ": nothing new\n\n"
FOLLOWED = ("going", *AWAITED)
"""States that pages and streams follow."""
_SECONDS = 0.5
_FOR_SECONDS = 600.0
"""Lifetime of a stream; browsers connect again by themselves, and name the last line that they have."""
_log = logging.getLogger(__name__)


@router.get("/runs", summary="List runs, by default the last changed first")
async def list_runs(session: SessionOf, asked: PageOf, view: RunViewOf) -> Page[RunBody]:
    """Runs without a value in the column that they are sorted by come last, in both orders."""
    return await run_list.list_runs(session, asked, view.wanted, view.sort, ascending=view.order == "asc")


@router.get("/comparison", summary="Two to eight runs side by side: settings, scores with intervals, curves")
async def show_comparison(session: SessionOf, store: StoreOf, run: RunsToCompare) -> ComparisonBody:
    return await run_comparison.compare_runs(session, store, run)


@router.get("/runs/{run}", summary="Show a run")
async def show_run(run: RunOf) -> RunBody:
    return RunBody.model_validate(run)


@router.get("/runs/{run}/notes", summary="Note and tags of a run")
async def show_notes(run: RunOf, session: SessionOf) -> NotesBody:
    return await run_notes.notes_of(session, run.name)


@router.post("/runs/{run}/notes", summary="Put a note and tags in place of those of a run")
async def write_notes(run: RunOf, notes: NotesRequest, runner: Runner, session: SessionOf) -> NotesBody:
    return await run_notes.write_notes(session, runner, run.name, notes)


@router.get("/runs/{run}/artifacts", summary="List the files of a run that can be taken along, with their digests")
async def list_artifacts(run: RunOf, session: SessionOf, store: StoreOf, asked: PageOf) -> Page[ArtifactBody]:
    return list_page(await artifacts.list_artifacts(session, store, run.name), asked)


@router.get(
    "/runs/{run}/artifact",
    summary="Content of an artifact",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "The file"}},
)
async def download_artifact(
    run: RunOf,
    session: SessionOf,
    store: StoreOf,
    path: Annotated[str, Query(max_length=400, examples=["report.html"])],
) -> Response:
    artifact = await artifacts.find_artifact(session, store, run.name, path)
    name = f"{run.name}-{path.replace('/', '-')}".encode("ascii", "replace").decode().replace('"', "_")
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(artifact.bytes)}
    parts = artifacts.artifact_parts(store, artifact, run.name)
    return StreamingResponse(parts, media_type="application/octet-stream", headers=headers)


@router.get("/runs/{run}/curves", summary="Curves of a run's trainings: rewards, entropy, length, memory and others")
async def show_curves(run: RunOf, store: StoreOf) -> list[CurveBody]:
    files = await asyncio.to_thread(store.files, run.name)
    return await asyncio.to_thread(run_comparison.read_curves, store, run.name, files)


@router.get("/runs/{run}/stages/{stage}/steps", summary="Statistics of a training's steps")
async def list_steps(
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    after: Annotated[int, Query(ge=0, lt=1 << 31, description="Last step that is known already")] = 0,
) -> list[StepStatistics]:
    return await runs.read_steps(store, run.name, stage, after)


@router.get("/runs/{run}/stages/{stage}/log", summary="End of a stage's log")
async def show_log(store: StoreOf, run: RunOf, stage: StageName) -> LogBody:
    return LogBody(stage=stage, text=await runs.read_log(store, run.name, stage))


@router.get(
    "/runs/{run}/events",
    summary="Changes of a run, as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "An event `run` with each change"}},
)
async def follow_run(run: RunOf, request: Request) -> StreamingResponse:
    return event_stream(request, _events(request, run.name))


@router.get(
    "/runs/{run}/stages/{stage}/log/events",
    summary="Lines of a stage's log as they come, as server-sent events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "An event `lines` with each write"}},
)
async def follow_log(
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    request: Request,
    after: Annotated[int, Query(ge=0, lt=1 << 53, description="Bytes that are known already")] = 0,
) -> StreamingResponse:
    known = request.headers.get("last-event-id", "")
    begin = int(known) if known.isdecimal() and len(known) < 17 else after
    return event_stream(request, _lines(request, store, run.name, stage, begin))


@letters_router.get("/dead-letters", summary="List stages with dead letters, the last written first")
async def list_letter_tables(session: SessionOf, asked: PageOf) -> Page[LetterTableBody]:
    return await dead_letters.list_letter_tables(session, asked)


@letters_router.get("/runs/{run}/dead-letters", summary="List the dead letters of a run")
async def list_letters(
    store: StoreOf,
    run: RunOf,
    session: SessionOf,
    asked: PageOf,
    folder: DeadFolder = None,
    reason: DeadReason = None,
) -> Page[DeadLetterBody]:
    letters = await dead_letters.letters_of(session, store, run.name)
    return list_page(dead_letters.choose_letters(letters, folder, reason), asked)


@letters_router.post(
    "/runs/{run}/dead-letters/{stage}/ask-again", summary="Reopen a stage and resume its run, which asks again"
)
async def ask_again(
    runner: Runner, store: StoreOf, run: RunOf, stage: StageName, session: SessionOf, service: SubmissionsOf
) -> Reopened:
    return await dead_letters.ask_again(session, store, service, runner, run.name, stage)


@letters_router.get("/runs/{run}/budget", summary="What a run spent of what was planned, by stage")
async def show_budget(store: StoreOf, run: RunOf, session: SessionOf) -> SpendingBody:
    return await run_figures.run_spending(session, store, run)


async def _events(request: Request, name: str) -> AsyncGenerator[str | None]:
    last = None
    end = time.monotonic() + _FOR_SECONDS
    while time.monotonic() < end:
        news = _streams(request).news(name)  # before the look, which may miss what is indexed meanwhile
        run = await _look_at_run(request, name)
        if run != last:
            last = run
            yield f"event: run\ndata: {json.dumps(run.model_dump(mode='json'))}\n\n"
        else:
            yield None
        if run.state not in FOLLOWED:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), _SECONDS)


async def _lines(request: Request, store: RunStore, run: str, stage: str, begin: int) -> AsyncGenerator[str | None]:
    for _ in range(int(_FOR_SECONDS / _SECONDS)):
        is_going = (await _look_at_run(request, run)).state == "going"
        read = partial(runs.log_after, store, run, stage, begin, is_going=is_going)
        text, begin = await _streams(request).look((run, stage, begin, is_going), read, _SECONDS)
        yield f"id: {begin}\nevent: lines\ndata: {json.dumps(text)}\n\n" if text else None
        if not is_going:
            yield "event: end\ndata: {}\n\n"
            return
        await asyncio.sleep(_SECONDS)


async def _look_at_run(request: Request, name: str) -> RunBody:
    async def fetch() -> RunBody:
        async with request.app.state.database.session() as session:
            return RunBody.model_validate(await runs.get_run(session, name))

    return await _streams(request).look(name, fetch, _SECONDS)


def _streams(request: Request) -> Streams:
    streams: Streams = request.app.state.streams
    return streams


class EventStream(StreamingResponse):
    """A stream that counts as open from its first byte to its end; 503 if there are too many."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        caller: str = request.state.principal.name
        if reason := _streams(request).refusal(caller):
            headers = {"Retry-After": str(RETRY_SECONDS)}
            answer = problem_answer(request, 503, "Too many streams", reason, headers=headers)
            return await answer(scope, receive, send)
        with _streams(request).opened(caller):
            await super().__call__(scope, receive, send)


def event_stream(request: Request, events: AsyncGenerator[str | None]) -> StreamingResponse:
    """Answer with a stream of events.

    Args:
        events: events as they are sent, and None for each look that found nothing new.
    """
    # nginx collects what it passes on, and would keep an event back until a buffer is full.
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    allowed = _while_allowed(request, events)
    return EventStream(_with_heartbeats(allowed), media_type="text/event-stream", headers=headers)


async def _while_allowed(request: Request, events: AsyncGenerator[str | None]) -> AsyncIterator[str | None]:
    """The events until the service is told to stop, the caller's token or session ends, or the database is away.

    A browser then connects again by itself.
    """
    try:
        async with contextlib.aclosing(events):
            async for event in events:
                if request.app.state.is_stopping or await _caller_now(request, event) != request.state.principal:
                    return
                yield event
    except SQLAlchemyError as error:
        _log.warning("the stream %s ended: %s", request.url.path, describe_fault(error))


async def _caller_now(request: Request, event: str | None) -> Principal | None:
    """The caller, looked up now if there is an event to send; else by any stream of the caller within a second."""
    headers = headers_of(request.scope)

    async def fetch() -> Principal | None:
        return await principal_of(request.scope)

    key = (headers.get("authorization"), headers.get("cookie"), headers.get("host"))
    return await _streams(request).look(key, fetch, _SECONDS if event is None else 0.0)


async def _with_heartbeats(events: AsyncIterator[str | None]) -> AsyncIterator[str]:
    last = time.monotonic()
    async for event in events:
        if event is None and time.monotonic() - last < _HEARTBEAT_SECONDS:
            continue
        last = time.monotonic()
        yield event or _HEARTBEAT
