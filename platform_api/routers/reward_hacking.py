"""Routes of reward hacking: signals of a training, audits of judges, and the page that shows both."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, FailureMode
from rubricworks.platform_api.cursors import encode_cursor, page_of, row_cursor
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.routers.dependencies import PROBLEMS, Cursor, Limit, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.routers.tagged_route import TaggedRoute
from rubricworks.platform_api.schemas.reward_hacking import (
    AuditBody,
    AuditCaseBody,
    AuditCasePage,
    AuditPage,
    SignalsBody,
)
from rubricworks.platform_api.services import reward_hacking, run_tables, runs
from rubricworks.platform_api.services.charts import reward_hacking_charts
from rubricworks.platform_api.services.simulations import is_simulated

router = APIRouter(prefix="/api/v1/runs/{run}", tags=["reward hacking"], responses=PROBLEMS, route_class=TaggedRoute)
page_router = APIRouter(include_in_schema=False)


async def get_audit(run: RunName, stage: StageName, session: SessionOf) -> RunTable:
    """The audit's table of a stage."""
    await runs.get_run(session, run)
    return await run_tables.get_table(session, run, stage, reward_hacking.AUDIT)


AuditOf = Annotated[RunTable, Depends(get_audit)]


@router.get("/stages/{stage}/signals", summary="Reward, held-out scores and the alarm's statistics of a training")
async def show_signals(
    run: RunName, stage: StageName, session: SessionOf, store: StoreOf, viewer: Viewer
) -> SignalsBody:
    await runs.get_run(session, run)
    return SignalsBody.model_validate(await reward_hacking.training_signals(session, store, run, stage))


@router.get("/audits", summary="List the audits of a run")
async def list_audits(
    run: RunName, session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> AuditPage:
    await runs.get_run(session, run)
    found, next_cursor = page_of(await reward_hacking.list_audits(session, run), cursor, limit)
    return AuditPage(items=[AuditBody(stage=one.path, rows=one.rows) for one in found], next_cursor=next_cursor)


@router.get("/stages/{stage}/audit", summary="Figures of an audit")
async def show_audit(audit: AuditOf, store: StoreOf, viewer: Viewer) -> AuditSummary:
    return await reward_hacking.audit_summary(store, audit)


@router.get("/stages/{stage}/audit/cases", summary="Responses with credit that they do not deserve, the worst first")
async def list_cases(
    audit: AuditOf,
    store: StoreOf,
    viewer: Viewer,
    mode: FailureMode | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> AuditCasePage:
    start = row_cursor(cursor)
    found = await reward_hacking.audit_cases(store, audit, MODE_NAMES[mode] if mode else None)
    return AuditCasePage(
        items=[AuditCaseBody.of(one) for one in found[start : start + limit]],
        next_cursor=encode_cursor(start + limit) if start + limit < len(found) else None,
    )


@page_router.get("/runs/{run}/hacking")
async def hacking_page(
    run: RunName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    mode: FailureMode | Literal[""] = "",
    cursor: Cursor = None,
) -> Response:
    record = await runs.get_run(session, run)
    name = MODE_NAMES[mode] if mode else None
    audits = [
        await reward_hacking_charts.audit_figures(store, one, name, row_cursor(cursor))
        for one in await reward_hacking.list_audits(session, run)
    ]
    return draw_page(
        request,
        viewer,
        "hacking.html",
        run=record,
        simulated=await is_simulated(store, record),
        trainings=await reward_hacking_charts.training_charts(session, store, run),
        audits=audits,
        next_cursors={
            one.stage: encode_cursor(one.next_start) if one.next_start is not None else None for one in audits
        },
        mode=mode,
        modes={mode: MODE_NAMES[mode] for mode in FAILURE_MODES},
        mode_names=MODE_NAMES,
    )
