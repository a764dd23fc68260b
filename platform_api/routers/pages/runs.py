"""Pages of runs: the list, a run with its stages and budget, its report and logs."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from rubricworks.platform_api.cursors import encode_cursor
from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import Cursor, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.runs import RunName, StageName, run_cursor
from rubricworks.platform_api.schemas.runs import State
from rubricworks.platform_api.services import budgets, preferences, rollouts, runs
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.budgets import Spending
from rubricworks.platform_api.services.dead_letters import LETTERS
from rubricworks.platform_api.services.rubrics import rubric_sets
from rubricworks.platform_api.services.run_tables import list_tables
from rubricworks.reports.charts import line_chart
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart

router = APIRouter(include_in_schema=False)
_MILLION = 1e6


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
    going = [one["stage"] for one in record.stages if record.state == "going" and not one["done"]]
    return draw_page(
        request,
        viewer,
        "run.html",
        run=record,
        charts=charts,
        has_report=await runs.has_report(store, run),
        spending=spending,
        timeline=_timeline(record, spending),
        progress={stage: await runs.read_progress(store, run, stage) for stage in going},
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
