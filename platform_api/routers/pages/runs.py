"""Pages of runs: the list, runs side by side, a run with its tabs, its report, logs and dead letters."""

import asyncio
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.pagination import PageRequest, list_page
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.routers.dependencies import (
    PAGE,
    DeadFolder,
    DeadReason,
    DrawnPageOf,
    Runner,
    RunOf,
    RunsToCompare,
    RunViewOf,
    SessionOf,
    StageName,
    StoreIfAny,
    StoreOf,
    SubmissionsOf,
    TabsOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute, form_fields
from rubricworks.platform_api.routers.pages import run_charts
from rubricworks.platform_api.routers.pages.drawing import address, draw_page
from rubricworks.platform_api.routers.runs import FOLLOWED
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.runs import CurveBody, NotesRequest, RunBody, RunColumn
from rubricworks.platform_api.services import (
    artifacts,
    dead_letters,
    run_comparison,
    run_figures,
    run_list,
    run_notes,
    runs,
)
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.dead_letters import LETTERS
from rubricworks.platform_api.services.judgements.judge_verdicts import has_verdicts
from rubricworks.platform_api.services.rubrics import rubric_sets
from rubricworks.platform_api.services.run_list import RunFilter
from rubricworks.platform_api.services.samples import file_names
from rubricworks.platform_api.services.submission import submissions
from rubricworks.reports.rubric_audit import AUDIT_PAGE
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote

_WRITTEN = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "form-action 'none'; base-uri 'none'; webrtc 'block'; frame-ancestors 'self'"
)
"""Policy of a page that a run wrote. The page's own, in its head, names by digest the scripts that may run."""
COLUMNS = {
    "state": "Outcome",
    "reward": "Reward",
    "win_rate": "Win rate",
    "champion": "Champion",
    "dollars": "Cost",
    "seconds": "Duration",
    "owner": "Owner",
    "tags": "Tags",
    "recipe": "Recipe",
    "pipeline": "Pipeline",
    "started": "Began",
    "changed": "Last change",
}
"""Column of the list of runs → its title."""
SHOWN = ("state", "reward", "win_rate", "dollars", "seconds", "owner", "tags", "changed")
"""Columns of a list by default."""
Tab = Literal["overview", "curves", "costs", "recipe", "artifacts"]
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
    view: RunViewOf,
    column: Annotated[list[RunColumn], Query(max_length=len(COLUMNS))] = [],  # noqa: B006
) -> Response:
    problem = ""
    try:
        page = await run_list.list_runs(session, asked, view.wanted, view.sort, ascending=view.order == "asc")
    except BadRequest as error:
        if not view.wanted.where:
            raise
        page, problem = Page[RunBody](items=[], next_cursor=None), error.detail
    return draw_page(
        request,
        viewer,
        "runs.html",
        status=422 if problem else 200,
        runs=page,
        problem=problem,
        counts=await runs.count_runs(session),
        view=view,
        columns=[name for name in COLUMNS if name in column] or list(SHOWN),
        titles=COLUMNS,
        tags=await run_notes.known_tags(session),
        link=partial(address, request),
        is_filtered=any(view.wanted),
        has_kubeflow=request.app.state.kubeflow is not None,
    )


@router.get("/compare-runs")
async def compare_runs_page(
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    run: RunsToCompare = [],  # noqa: B006
    every: Annotated[bool, Query(description="Fields that are equal, too")] = False,
) -> Response:
    if len(run) == 1:
        # One run is on its way to be compared: the page asks for another.
        comparison = None
        await runs.get_run(session, run[0])
    else:
        comparison = await run_comparison.compare_runs(session, store, run)
    return draw_page(
        request,
        viewer,
        "compare_runs.html",
        chosen=run,
        comparison=comparison,
        charts=run_charts.overlaid(comparison.curves, run) if comparison else [],
        every=every,
        recent=(await run_list.list_runs(session, PageRequest(limit=PAGE), RunFilter())).items,
        link=partial(address, request),
    )


@router.get("/runs/{run}")
async def run_page(
    run: RunOf,
    request: Request,
    session: SessionOf,
    store: StoreIfAny,
    service: SubmissionsOf,
    viewer: Viewer,
    asked: DrawnPageOf,
    links: TabsOf,
    tab: Tab = "overview",
    confirm: Literal["", "stop"] = "",
    edit: Literal["", "notes"] = "",
) -> Response:
    figures = await run_figures.run_figures(session, store, run)
    may_run = viewer.may(Right.RUN)
    is_live = run.state in FOLLOWED
    in_bucket = store is None or is_remote(store.uri)  # a folder that is there is open
    tables = await runs.tables_of(session, run.name)
    of_tab: dict[str, Any] = {}
    if store is not None and not figures.is_away:
        of_tab = await _tab_content(session, store, run, tab, asked)
    submission = await submissions.find_submission(session, run.name)
    return draw_page(
        request,
        viewer,
        "run.html",
        run=RunBody.model_validate(run),
        simulated=run.simulated,
        tab=tab,
        links=links,
        is_live=is_live,
        figures=figures,
        is_away=figures.is_away,
        timeline=run_figures.timeline(run, figures.spending),
        progress={stage["stage"]: stage for stage in run.progress},
        burn=run_figures.burn_chart(figures.spending),
        letters=sum(table.rows for table in tables if table.kind == LETTERS),
        rubric_sets=[table.path for table in tables if table.kind == rubric_sets.KIND and "/" not in table.path],
        has_scores=any(table.kind == "scores" for table in tables),
        comparable=may_run and any(table.kind == "responses" for table in tables),
        has_judges=may_run and any(map(has_verdicts, tables)),
        stop_problem=await service.stop_problem(run.name, in_bucket=in_bucket) if is_live and may_run else None,
        resume_problem=await service.resume_problem(run.name) if _may_go_on(run) and may_run else None,
        notes=await run_notes.notes_of(session, run.name),
        submission=submission,
        output=service.output(run.name) if submission is not None and submission.place == "here" else "",
        confirm=confirm,
        edit=edit,
        **of_tab,
    )


def _may_go_on(run: Run) -> bool:
    return run.state in ("stopped", "failed", "unfinished")


async def _tab_content(
    session: AsyncSession, store: RunStore, run: Run, tab: str, asked: PageRequest
) -> dict[str, Any]:
    """Values that a tab shows, and no other needs."""
    match tab:
        case "curves":
            curves = await asyncio.to_thread(_read_curves, store, run.name)
            return {"charts": run_charts.of_run(curves)}
        case "recipe":
            return {"recipe": await asyncio.to_thread(run_comparison.read_recipe, store, run.name)}
        case "artifacts":
            return {"artifacts": list_page(await artifacts.list_artifacts(session, store, run.name), asked)}
    return {}


def _read_curves(store: RunStore, run: str) -> list[CurveBody]:
    return run_comparison.read_curves(store, run, store.files(run))


@forms_router.post("/runs/{run}/notes")
async def write_notes_by_form(run: RunOf, request: Request, runner: Runner, session: SessionOf) -> Response:
    fields = await form_fields(request)
    tags = [tag.strip() for tag in fields.get("tags", "").split(",") if tag.strip()]
    try:
        notes = NotesRequest(note=fields.get("note", ""), tags=tags)
    except ValidationError as error:
        raise BadRequest(
            "tags: write words of letters, digits and . _ : / - with commas between them, 20 at most, each of at most "
            "50 characters; a note has at most 5,000"
        ) from error
    await run_notes.write_notes(session, runner, run.name, notes)
    return RedirectResponse(f"/runs/{quote(run.name)}", status_code=303)


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
