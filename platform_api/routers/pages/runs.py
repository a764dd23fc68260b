"""Pages of runs: the list, a run with its stages and budget, its report, logs and dead letters."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.pagination import list_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import (
    DeadFolder,
    DeadReason,
    DrawnPageOf,
    Runner,
    RunOf,
    SessionOf,
    StageName,
    StoreIfAny,
    StoreOf,
    SubmissionsOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.schemas.runs import State
from rubricworks.platform_api.services import dead_letters, run_figures, runs
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.dead_letters import LETTERS
from rubricworks.platform_api.services.judgements.judge_verdicts import has_verdicts
from rubricworks.platform_api.services.rubrics import rubric_sets
from rubricworks.platform_api.services.samples import file_names
from rubricworks.reports.rubric_audit import AUDIT_PAGE
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote

_WRITTEN = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'; webrtc 'block'; frame-ancestors 'self'"
)
"""Policy of a page that a run wrote. The page's own, in its head, names by digest the scripts that may run."""
router = APIRouter(include_in_schema=False)
forms_router = APIRouter(include_in_schema=False, route_class=FormRoute)


@router.get("/")
async def index(viewer: Viewer) -> Response:
    return RedirectResponse("/runs", status_code=303)


@router.get("/runs")
async def runs_page(
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    asked: DrawnPageOf,
    state: State | Literal[""] = "",
    search: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    return draw_page(
        request,
        viewer,
        "runs.html",
        runs=await runs.list_runs(session, asked, state=state or None, search=search),
        counts=await runs.count_runs(session),
        state=state,
        search=search,
        has_kubeflow=request.app.state.kubeflow is not None,
    )


@router.get("/runs/{run}")
async def run_page(
    run: RunOf, request: Request, session: SessionOf, store: StoreIfAny, service: SubmissionsOf, viewer: Viewer
) -> Response:
    figures = await run_figures.run_figures(session, store, run)
    may_stop = run.state == "going" and viewer.may(Right.RUN)
    in_bucket = store is None or is_remote(store.uri)  # a folder that is there is open
    tables = await runs.tables_of(session, run.name)
    return draw_page(
        request,
        viewer,
        "run.html",
        run=run,
        figures=figures,
        is_away=figures.is_away,
        timeline=run_figures.timeline(run, figures.spending),
        progress={stage["stage"]: stage for stage in run.progress},
        burn=run_figures.burn_chart(figures.spending),
        letters=sum(table.rows for table in tables if table.kind == LETTERS),
        rubric_sets=[table.path for table in tables if table.kind == rubric_sets.KIND and "/" not in table.path],
        comparable=viewer.may(Right.RUN) and any(table.kind == "responses" for table in tables),
        has_judges=viewer.may(Right.RUN) and any(map(has_verdicts, tables)),
        stop_problem=await service.stop_problem(run.name, in_bucket=in_bucket) if may_stop else None,
    )


@router.get("/runs/{run}/report")
async def report_page(request: Request, run: RunOf, store: StoreOf, viewer: Viewer) -> Response:
    await _report(store, run)
    return draw_page(request, viewer, "written.html", run=run, title="Report")


@router.get("/runs/{run}/report/content")
async def report_content(request: Request, run: RunOf, store: StoreOf, viewer: Viewer) -> Response:
    return _written(request, await _report(store, run))


@router.get("/runs/{run}/rubric-audit/{stage}")
async def rubric_audit_page(request: Request, run: RunOf, stage: StageName, store: StoreOf, viewer: Viewer) -> Response:
    await _rubric_audit(store, run, stage)
    return draw_page(request, viewer, "written.html", run=run, title="Audit of the rubrics")


@router.get("/runs/{run}/rubric-audit/{stage}/content")
async def rubric_audit_content(
    request: Request, run: RunOf, stage: StageName, store: StoreOf, viewer: Viewer
) -> Response:
    return _written(request, await _rubric_audit(store, run, stage))


@router.get("/runs/{run}/log/{stage}")
async def log_page(store: StoreOf, run: RunOf, stage: StageName, request: Request, viewer: Viewer) -> Response:
    text, size = await runs.log_after(store, run.name, stage, 0, is_going=run.state == "going")
    if not text:
        text = await runs.read_log(store, run.name, stage)
    return draw_page(request, viewer, "log.html", run=run, stage=stage, text=text, size=size)


@forms_router.get("/dead-letters")
async def letter_tables_page(request: Request, session: SessionOf, viewer: Viewer, asked: DrawnPageOf) -> Response:
    tables = await dead_letters.list_letter_tables(session, asked)
    return draw_page(request, viewer, "dead_letter_tables.html", tables=tables)


@forms_router.get("/runs/{run}/dead-letters")
async def letters_page(
    store: StoreOf,
    run: RunOf,
    request: Request,
    session: SessionOf,
    service: SubmissionsOf,
    viewer: Viewer,
    asked: DrawnPageOf,
    folder: DeadFolder = None,
    reason: DeadReason = None,
) -> Response:
    letters = await dead_letters.letters_of(session, store, run.name)
    chosen = dead_letters.choose_letters(letters, folder or None, reason or None)
    page = list_page(chosen, asked)
    return draw_page(
        request,
        viewer,
        "dead_letters.html",
        run=run,
        counts=dead_letters.count_reasons(letters),
        letters=page,
        file_names=await file_names(session, run.name, {letter.sample_id for letter in page.items}),
        count=len(chosen),
        folder=folder or "",
        reason=reason or "",
        may_ask=viewer.may(Right.RUN) and run.state != "going",
        goes_on_here=await service.is_here(run.name),
    )


@forms_router.post("/runs/{run}/dead-letters/{stage}/ask-again")
async def ask_again_by_form(
    runner: Runner, store: StoreOf, run: RunOf, stage: StageName, session: SessionOf, service: SubmissionsOf
) -> Response:
    reopened = await dead_letters.ask_again(session, store, service, runner, run.name, stage)
    target = f"/submissions/{run.name}" if reopened.resumed else f"/runs/{run.name}"
    return RedirectResponse(target, status_code=303)


async def _report(store: RunStore, run: Run) -> bytes:
    content = await runs.read_file(store, run.name, runs.REPORT)
    if content is None:
        raise NotFound(f"{run.name} has no report yet")
    return content


async def _rubric_audit(store: RunStore, run: Run, stage: str) -> bytes:
    content = await runs.read_file(store, run.name, f"{stage}/{AUDIT_PAGE}")
    if content is None:
        raise NotFound(f"{stage} of {run.name} has audited no rubrics; rubric.audit in a recipe has it do so")
    return content


def _written(request: Request, content: bytes) -> Response:
    """A page that the run wrote, which may be anybody's: it reaches no network, and shows in a frame of ours alone.

    On its own, it could lead its reader elsewhere, with what was typed into it in the address; a frame is held by the
    policy of the page around it.
    """
    if request.headers.get("sec-fetch-dest") == "document":
        return RedirectResponse(request.url.path.removesuffix("/content"), status_code=303)
    headers = {"Content-Security-Policy": _WRITTEN, "X-Frame-Options": "SAMEORIGIN", "X-DNS-Prefetch-Control": "off"}
    return HTMLResponse(content, headers=headers)
