"""Pages of runs: the list, a run with its stages and budget, its report and logs."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rubricworks.platform_api.cursors import encode_cursor
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import Cursor, SessionOf, StoreIfAny, StoreOf, Viewer
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.runs import RunName, StageName, run_cursor
from rubricworks.platform_api.routers.submissions import SubmissionsOf
from rubricworks.platform_api.schemas.runs import State
from rubricworks.platform_api.services import preferences, runs
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.charts import run_charts
from rubricworks.platform_api.services.dead_letters import LETTERS
from rubricworks.platform_api.services.judges import judge_preferences
from rubricworks.platform_api.services.rubrics import rubric_sets
from rubricworks.platform_api.services.run_figures import run_figures
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.platform_api.services.simulations import is_simulated
from rubricworks.reports.rubric_audit import AUDIT_PAGE
from rubricworks.storage import is_remote

router = APIRouter(include_in_schema=False)


@router.get("/")
async def index(viewer: Viewer) -> Response:
    return RedirectResponse("/runs", status_code=303)


@router.get("/runs")
async def runs_page(
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    state: State | Literal[""] = "",
    search: Annotated[str, Query(max_length=200)] = "",
    cursor: Cursor = None,
) -> Response:
    before = run_cursor(cursor)
    found = await runs.list_runs(
        session, state=state or None, recipe=None, search=search, before=before, limit=PAGE + 1
    )
    last = found[PAGE - 1] if len(found) > PAGE else None
    counts = await runs.count_runs(session)
    next_cursor = encode_cursor(last.changed.isoformat(), last.name) if last else None
    return draw_page(
        request,
        viewer,
        "runs.html",
        runs=found[:PAGE],
        counts=counts,
        state=state,
        search=search,
        next_cursor=next_cursor,
        has_kubeflow=request.app.state.kubeflow is not None,
    )


@router.get("/runs/{run}")
async def run_page(
    run: RunName, request: Request, session: SessionOf, store: StoreIfAny, service: SubmissionsOf, viewer: Viewer
) -> Response:
    record = await runs.get_run(session, run)
    figures = await run_figures(session, store, record)
    may_stop = record.state == "going" and viewer.may(Right.RUN)
    in_bucket = store is None or is_remote(store.uri)  # a folder that is there is open
    return draw_page(
        request,
        viewer,
        "run.html",
        run=record,
        figures=figures,
        is_away=figures.is_away,
        simulated=await is_simulated(store, record),
        timeline=run_charts.timeline(record, figures.spending),
        progress={one["stage"]: one for one in record.progress or []},
        burn=run_charts.burn_chart(figures.spending),
        letters=sum(one.rows for one in await list_tables(session, LETTERS, run=run)),
        rubric_sets=[one.path for one in await list_tables(session, rubric_sets.KIND, run=run) if "/" not in one.path],
        comparable=viewer.may(Right.RUN) and bool(await list_tables(session, preferences.KIND, run=run)),
        has_judges=viewer.may(Right.RUN) and await judge_preferences.has_judges(session, run),
        stop_problem=await service.stop_problem(run, in_bucket=in_bucket) if may_stop else None,
    )


@router.get("/runs/{run}/report")
async def report_page(run: RunName, session: SessionOf, store: StoreOf, viewer: Viewer) -> Response:
    await runs.get_run(session, run)
    content = await runs.read_file(store, run, runs.REPORT)
    if content is None:
        raise NotFound(f"{run} has no report yet")
    return _written_page(content)


@router.get("/runs/{run}/rubric-audit/{stage}")
async def rubric_audit_page(
    run: RunName, stage: StageName, session: SessionOf, store: StoreOf, viewer: Viewer
) -> Response:
    await runs.get_run(session, run)
    content = await runs.read_file(store, run, f"{stage}/{AUDIT_PAGE}")
    if content is None:
        raise NotFound(f"{stage} of {run} has audited no rubrics; rubric.audit in a recipe has it do so")
    return _written_page(content)


@router.get("/runs/{run}/log/{stage}")
async def log_page(
    run: RunName, stage: StageName, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer
) -> Response:
    record = await runs.get_run(session, run)
    text, size = await runs.log_after(store, run, stage, 0, is_going=record.state == "going")
    if not text:
        text = await runs.read_log(store, run, stage)
    return draw_page(request, viewer, "log.html", run=record, stage=stage, text=text, size=size)


def _written_page(content: bytes) -> Response:
    """A page that the run wrote: its own policy is in its head, which names by digest the scripts that may run."""
    return HTMLResponse(content, headers={"Content-Security-Policy": "sandbox allow-scripts; frame-ancestors 'none'"})
