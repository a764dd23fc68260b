"""Routes of dead letters and budgets, and the pages of dead letters."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.platform_api.cursors import encode_cursor, row_cursor
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Cursor,
    Limit,
    Runner,
    SessionOf,
    StoreOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute, KeyedRoute
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.rubrics import next_table, table_cursor
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.routers.submissions import SubmissionsOf
from rubricworks.platform_api.schemas.dead_letters import (
    DeadLetterBody,
    DeadLetterPage,
    LetterTableBody,
    LetterTablePage,
    Reopened,
    SpendingBody,
)
from rubricworks.platform_api.services import budgets, dead_letters, runs
from rubricworks.platform_api.services.access.principals import Right

router = APIRouter(prefix="/api/v1", tags=["dead letters"], responses=PROBLEMS, route_class=KeyedRoute)
page_router = APIRouter(include_in_schema=False, route_class=FormRoute)
Folder = Annotated[str | None, Query(alias="stage", max_length=300)]
Reason = Annotated[str | None, Query(max_length=100)]


@router.get("/dead-letters", summary="List stages with dead letters, the last written first")
async def list_tables(session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50) -> LetterTablePage:
    found = await dead_letters.list_letter_tables(session, before=table_cursor(cursor), limit=limit + 1)
    items = [
        LetterTableBody(run=one.run, stage=dead_letters.folder_of(one), letters=one.rows, modified=one.modified)
        for one in found[:limit]
    ]
    return LetterTablePage(items=items, next_cursor=next_table(found, limit))


@router.get("/runs/{run}/dead-letters", summary="List the dead letters of a run")
async def list_letters(
    run: RunName,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    folder: Folder = None,
    reason: Reason = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> DeadLetterPage:
    await runs.get_run(session, run)
    start = row_cursor(cursor)
    found = dead_letters.choose_letters(await dead_letters.letters_of(session, store, run), folder, reason)
    return DeadLetterPage(
        items=[DeadLetterBody.model_validate(one) for one in found[start : start + limit]],
        next_cursor=encode_cursor(start + limit) if start + limit < len(found) else None,
    )


@router.post(
    "/runs/{run}/dead-letters/{stage}/ask-again", summary="Reopen a stage and resume its run, which asks again"
)
async def ask_again(
    runner: Runner,
    run: RunName,
    stage: StageName,
    session: SessionOf,
    store: StoreOf,
    service: SubmissionsOf,
) -> Reopened:
    await runs.get_run(session, run)
    letters, resumed = await dead_letters.ask_again(session, store, service, runner, run, stage)
    command = f"rubricworks run --resume {run}"
    return Reopened(run=run, stage=stage, letters=letters, resumed=resumed, command=command)


@router.get("/runs/{run}/budget", summary="What a run spent of what was planned, by stage")
async def show_budget(run: RunName, session: SessionOf, store: StoreOf, viewer: Viewer) -> SpendingBody:
    record = await runs.get_run(session, run)
    return SpendingBody.model_validate(await budgets.run_spending(session, store, record))


@page_router.get("/dead-letters")
async def letter_tables_page(request: Request, session: SessionOf, viewer: Viewer, cursor: Cursor = None) -> Response:
    found = await dead_letters.list_letter_tables(session, before=table_cursor(cursor), limit=PAGE + 1)
    return draw_page(
        request,
        viewer,
        "dead_letter_tables.html",
        tables=[(one, dead_letters.folder_of(one)) for one in found[:PAGE]],
        next_cursor=next_table(found, PAGE),
    )


@page_router.get("/runs/{run}/dead-letters")
async def letters_page(
    run: RunName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    service: SubmissionsOf,
    viewer: Viewer,
    folder: Folder = None,
    reason: Reason = None,
    cursor: Cursor = None,
) -> Response:
    record = await runs.get_run(session, run)
    start = row_cursor(cursor)
    letters = await dead_letters.letters_of(session, store, run)
    chosen = dead_letters.choose_letters(letters, folder or None, reason or None)
    return draw_page(
        request,
        viewer,
        "dead_letters.html",
        run=record,
        counts=dead_letters.count_reasons(letters),
        letters=chosen[start : start + PAGE],
        count=len(chosen),
        folder=folder or "",
        reason=reason or "",
        next_cursor=encode_cursor(start + PAGE) if start + PAGE < len(chosen) else None,
        may_ask=viewer.may(Right.RUN) and record.state != "going",
        goes_on_here=await service.is_here(run),
    )


@page_router.post("/runs/{run}/dead-letters/{stage}/ask-again")
async def ask_again_by_form(
    runner: Runner, run: RunName, stage: StageName, session: SessionOf, store: StoreOf, service: SubmissionsOf
) -> Response:
    await runs.get_run(session, run)
    asked = await dead_letters.ask_again(session, store, service, runner, run, stage)
    return RedirectResponse(f"/submissions/{run}" if asked.resumed else f"/runs/{run}", status_code=303)
