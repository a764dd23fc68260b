"""Pages: server-rendered HTML over the same services as the API."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import rubricworks.reports
from rubricworks import __version__
from rubricworks.platform_api.access import SESSION_COOKIE, session_cookie
from rubricworks.platform_api.cursors import decode_cursor, encode_cursor
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import Admin, Cursor, DatabaseOf, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.rollouts import SampleId, Step
from rubricworks.platform_api.routers.runs import RunName, StageName, run_cursor
from rubricworks.platform_api.schemas.runs import State
from rubricworks.platform_api.services import budgets, preferences, rollouts, runs
from rubricworks.platform_api.services.access import audit_log, tokens
from rubricworks.platform_api.services.access.principals import Principal, Right
from rubricworks.platform_api.services.budgets import Spending
from rubricworks.platform_api.services.dead_letters import LETTERS
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.platform_api.services.samples import find_sample
from rubricworks.platform_api.services.rubrics import rubric_sets
from rubricworks.reports.charts import line_chart
from rubricworks.reports.formats import FILTERS
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart

router = APIRouter(include_in_schema=False)
_REPORTS = Path(rubricworks.reports.__file__).parent / "templates"
_TEMPLATES = Path(__file__).parents[1] / "pages"
_MILLION = 1e6
PAGE = 30
"""Rows of a page."""
_environment = Environment(
    loader=FileSystemLoader([_TEMPLATES, _REPORTS]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(FILTERS)
_environment.filters["path"] = lambda text: quote(str(text), safe="")


@router.get("/")
async def index(viewer: Viewer) -> Response:
    return RedirectResponse("/runs", status_code=303)


@router.get("/runs")
async def runs_page(
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    state: State | None = None,
    search: Annotated[str, Query(max_length=200)] = "",
    cursor: Cursor = None,
) -> Response:
    before = run_cursor(cursor)
    found = await runs.list_runs(session, state=state, recipe=None, search=search, before=before, limit=PAGE + 1)
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
async def run_page(run: RunName, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer) -> Response:
    record = await runs.get_run(session, run)
    stages = await rollouts.stages_with_rollouts(session, run)
    charts = []
    for stage in stages:
        points = [
            (float(row["step"]), float(row["reward"]))
            for row in await runs.read_steps(store, run, stage, 0)
            if isinstance(row.get("reward"), int | float)
        ]
        charts.append((stage, line_chart(f"Reward of {stage}", points)))
    spending = await budgets.run_spending(session, store, record)
    return draw_page(
        request,
        viewer,
        "run.html",
        run=record,
        charts=charts,
        has_report=await runs.has_report(store, run),
        spending=spending,
        timeline=_timeline(record, spending),
        burn=_burn_chart(spending),
        letters=sum(one.rows for one in await list_tables(session, LETTERS, run=run)),
        rubric_sets=[one.path for one in await list_tables(session, rubric_sets.KIND, run=run) if "/" not in one.path],
        comparable=viewer.may(Right.RUN) and bool(await list_tables(session, preferences.KIND, run=run)),
        links=await runs.outside_links(session, store, run),
    )


class _Bar(NamedTuple):
    """A stage on the run's timeline, in percent of its time."""

    stage: str
    state: str
    left: float
    width: float
    seconds: float


def _timeline(run: Run, spending: Spending) -> list[_Bar]:
    """Stages one after the other, as the ledger has their times; those of which it has none have no width."""
    seconds = {one.stage: one.seconds for one in spending.stages}
    done = {one["stage"]: one["done"] for one in run.stages}
    known = {stage: done[stage] for stage in (*seconds, *done) if stage in done}
    total = sum(seconds.get(stage, 0.0) for stage in known) or 1.0
    bars, begin = [], 0.0
    for stage, is_done in known.items():
        took = seconds.get(stage, 0.0)
        ended = run.state if run.state in ("going", "stopped") else "not done"
        if run.state == "failed" and run.message.startswith(f"{stage}:"):
            ended = "failed"
        state = "done" if is_done else ended
        bars.append(_Bar(stage, state, 100 * begin / total, 100 * took / total, took))
        begin += took
    return bars


def _burn_chart(spending: Spending) -> SeriesChart | None:
    burn = budgets.burn_down(spending)
    if burn is None:
        return None
    unit, planned, actual = burn
    of_what = unit.capitalize()
    if planned[0][1] >= _MILLION:
        of_what = f"Millions of {unit}"
        planned, actual = ([(at, amount / _MILLION) for at, amount in line] for line in (planned, actual))
    values = [amount for _, amount in (*planned, *actual)]
    series = [Series("m1", "planned", planned), Series("m0", "left", actual)]
    return series_chart(f"{of_what} left of the plan", series, bounds=(min(0.0, *values), max(values)))


@router.get("/runs/{run}/report")
async def report_page(run: RunName, session: SessionOf, store: StoreOf, viewer: Viewer) -> Response:
    await runs.get_run(session, run)
    content = await runs.read_file(store, run, runs.REPORT)
    if content is None:
        raise NotFound(f"{run} has no report yet")
    # The report's own policy is in its head; it has no scripts but those that this policy names by digest.
    return HTMLResponse(content, headers={"Content-Security-Policy": "sandbox allow-scripts; frame-ancestors 'none'"})


@router.get("/runs/{run}/log/{stage}")
async def log_page(
    run: RunName, stage: StageName, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer
) -> Response:
    record = await runs.get_run(session, run)
    text, size = await runs.log_after(store, run, stage, 0)
    if not text:
        text = await runs.read_log(store, run, stage)
    return draw_page(request, viewer, "log.html", run=record, stage=stage, text=text, size=size)


@router.get("/runs/{run}/rollouts/{stage}")
async def rollouts_page(
    run: RunName,
    stage: StageName,
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    step: Annotated[int | None, Query(ge=0, lt=1 << 31)] = None,
    sample_id: Annotated[str | None, Query(max_length=200)] = None,
    criterion: Annotated[str | None, Query(max_length=2000)] = None,
    cursor: Cursor = None,
) -> Response:
    record = await runs.get_run(session, run)
    steps = await rollouts.step_range(session, run, stage)
    if steps is None:
        raise NotFound(f"{stage} of {run} has no rollouts yet")
    flips = await rollouts.flips(session, run, stage, criterion, 100) if criterion else None
    if step is None and sample_id is None and cursor is None:
        step = steps[1]
    after: Any = decode_cursor(cursor, int, str) if cursor is not None else None
    groups = await rollouts.list_groups(
        session, run, stage, step=step, sample_id=sample_id, after=after, limit=PAGE + 1
    )
    last = groups[PAGE - 1] if len(groups) > PAGE else None
    return draw_page(
        request,
        viewer,
        "rollouts.html",
        run=record,
        stage=stage,
        steps=steps,
        step=step,
        sample_id=sample_id,
        criterion=criterion,
        flips=flips,
        groups=groups[:PAGE],
        next_cursor=encode_cursor(last.step, last.sample_id) if last else None,
    )


@router.get("/runs/{run}/rollouts/{stage}/{step}/{sample_id}")
async def group_page(
    run: RunName,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
) -> Response:
    record = await runs.get_run(session, run)
    members = await rollouts.get_group(session, store, run, stage, step, sample_id)
    before, after = await rollouts.neighbours(session, run, stage, step, sample_id)
    return draw_page(
        request,
        viewer,
        "group.html",
        run=record,
        stage=stage,
        step=step,
        sample_id=sample_id,
        sample=await find_sample(session, store, run, sample_id),
        members=members,
        criteria=next((one["verdicts"] for one in members if one["verdicts"]), []),
        before=before,
        after=after,
    )


@router.get("/runs/{run}/criteria/{stage}")
async def criteria_page(
    run: RunName, stage: StageName, request: Request, session: SessionOf, viewer: Viewer
) -> Response:
    record = await runs.get_run(session, run)
    figures = await rollouts.list_criteria(session, run, stage)
    return draw_page(request, viewer, "criteria.html", run=record, stage=stage, figures=figures)


@router.get("/tokens")
async def tokens_page(request: Request, session: SessionOf, admin: Admin) -> Response:
    return draw_page(request, admin, "tokens.html", tokens=await tokens.list_tokens(session))


@router.get("/changes")
async def changes_page(request: Request, session: SessionOf, viewer: Viewer, cursor: Cursor = None) -> Response:
    before = decode_cursor(cursor, int)[0] if cursor is not None else None
    found = await audit_log.list_changes(session, before=before, limit=PAGE + 1, action=None, subject=None)
    next_cursor = encode_cursor(found[PAGE - 1].id) if len(found) > PAGE else None
    return draw_page(request, viewer, "changes.html", changes=found[:PAGE], next_cursor=next_cursor)


@router.get("/login")
async def login_page(request: Request, next: Annotated[str, Query(max_length=500)] = "/") -> Response:
    return draw_page(request, None, "login.html", next=_own_path(next), wrong=False)


@router.post("/login")
async def log_in(request: Request, database: DatabaseOf) -> Response:
    fields = parse_qs((await request.body()).decode(errors="replace"))
    secret, target = fields.get("token", [""])[0].strip(), _own_path(fields.get("next", ["/"])[0])
    async with database.session() as session:
        principal = await tokens.principal_of_secret(session, secret)
        cookie = await tokens.open_session(session, principal) if principal else None
    if cookie is None:
        return draw_page(request, None, "login.html", status=401, next=target, wrong=True)
    answer = RedirectResponse(target, status_code=303)
    answer.set_cookie(
        SESSION_COOKIE,
        cookie,
        max_age=tokens.SESSION_HOURS * 3600,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.post("/logout")
async def log_out(request: Request, database: DatabaseOf, viewer: Viewer) -> Response:
    if cookie := session_cookie({name.lower(): value for name, value in request.headers.items()}):
        async with database.session() as session:
            await tokens.close_session(session, cookie)
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(SESSION_COOKIE)
    return answer


def problem_page(request: Request, status: int, title: str, detail: str, headers: Any) -> Response:
    """A problem as a page with the way back."""
    answer = draw_page(
        request, getattr(request.state, "principal", None), "problem.html", status=status, problem=title, detail=detail
    )
    answer.headers.update(headers or {})
    return answer


def draw_page(
    request: Request, caller: Principal | None, template: str, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """A page, drawn for its caller."""
    shared: Mapping[str, Any] = {"caller": caller, "here": request.url.path, "version": __version__}
    html = _environment.get_template(template).render(**shared, **values)
    return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})


def _own_path(target: str) -> str:
    """A path of this service; anything that a browser would take for another site becomes `/`."""
    is_own = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_own else "/"
