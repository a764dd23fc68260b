"""Routes of reward hacking: signals of a training, audits of judges, and the page that shows both."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, FailureMode
from rubricworks.platform_api.cursors import encode_cursor
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import PROBLEMS, Cursor, Limit, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.routers.rubrics import row_cursor
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.schemas.reward_hacking import (
    AuditBody,
    AuditCaseBody,
    AuditCasePage,
    MisjudgedBody,
    SignalsBody,
)
from rubricworks.platform_api.services import reward_hacking, rollouts, run_tables, runs
from rubricworks.platform_api.services.reward_hacking import Signals
from rubricworks.reports.audit.cases import BadCase, MisjudgedCriterion
from rubricworks.reports.audit.page import audit_figure, audit_headline, audit_sentences, table_rows
from rubricworks.reports.charts import value_bounds
from rubricworks.reports.series_charts import Series, SeriesChart, series_chart
from rubricworks.runs.store import RunStore

router = APIRouter(prefix="/api/v1/runs/{run}", tags=["reward hacking"], responses=PROBLEMS)
page_router = APIRouter(include_in_schema=False)
_CASES = 8
_POINTS = 40
"""Points of the reward beside the few of the held-out judge."""


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
async def list_audits(run: RunName, session: SessionOf, viewer: Viewer) -> list[AuditBody]:
    await runs.get_run(session, run)
    return [AuditBody(stage=one.path, rows=one.rows) for one in await reward_hacking.list_audits(session, run)]


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
        items=[_case(one) for one in found[start : start + limit]],
        next_cursor=encode_cursor(start + limit) if start + limit < len(found) else None,
    )


@page_router.get("/runs/{run}/hacking")
async def hacking_page(
    run: RunName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    mode: FailureMode | None = None,
    cursor: Cursor = None,
) -> Response:
    record = await runs.get_run(session, run)
    return draw_page(
        request,
        viewer,
        "hacking.html",
        run=record,
        trainings=await _trainings(session, store, run),
        audits=[
            await _audit_parts(store, one, mode, row_cursor(cursor))
            for one in await reward_hacking.list_audits(session, run)
        ],
        mode=mode,
        modes={mode: MODE_NAMES[mode] for mode in FAILURE_MODES},
        mode_names=MODE_NAMES,
    )


async def _trainings(session: AsyncSession, store: RunStore, run: str) -> list[dict[str, Any]]:
    trainings = []
    for stage in await rollouts.stages_with_rollouts(session, run):
        try:
            signals = await reward_hacking.training_signals(session, store, run, stage)
        except NotFound:
            continue
        charts = [chart for one in signals.traces if (chart := _trace_chart(one, signals.alarm))]
        trainings.append({"stage": stage, "signals": signals, "overview": _overview(signals), "charts": charts})
    return trainings


async def _audit_parts(store: RunStore, audit: RunTable, mode: FailureMode | None, start: int) -> dict[str, Any]:
    figures = await reward_hacking.audit_summary(store, audit)
    cases = await reward_hacking.audit_cases(store, audit, MODE_NAMES[mode] if mode else None)
    return {
        "stage": audit.path,
        "figures": figures,
        "figure": audit_figure(figures),
        "headline": audit_headline(figures),
        "sentences": audit_sentences(figures),
        "rows": table_rows(figures),
        "cases": cases[start : start + _CASES],
        "count": len(cases),
        "next_cursor": encode_cursor(start + _CASES) if start + _CASES < len(cases) else None,
    }


def _overview(signals: Signals) -> SeriesChart | None:
    """Reward, held-out judge and the measure that training does not see, in one frame."""
    series = [Series("m0", "reward", _thinned(signals.rewards)), Series("m1", "held-out", signals.held_out)]
    if signals.measure:
        series.append(Series("m2", f"{signals.measure.scorer} {signals.measure.part}", signals.measure.points))
    values = [value for one in series for _, value in one.points]
    marks = [(float(signals.alarm["step"]), f"alarm, step {signals.alarm['step']}")] if signals.alarm else []
    bounds = (min(0.0, *values), max(1.0, *values)) if values else (0.0, 1.0)
    return series_chart("Reward, and what training does not see", series, bounds=bounds, marks=marks)


def _trace_chart(trace: reward_hacking.Trace, alarm: dict[str, Any] | None) -> tuple[Any, SeriesChart] | None:
    """A statistic's window means with the limit that it is nearest to."""
    limits = [(limit, name) for limit, name in ((trace.high, "limit"), (trace.low, "limit")) if limit is not None]
    if not trace.points or not limits:
        return None
    last = trace.points[-1][1]
    level = min(limits, key=lambda one: abs(one[0] - last))
    values = [trace.start, level[0], *(value for _, value in trace.points)]
    marks = [(float(trace.crossed), f"step {trace.crossed}")] if trace.crossed is not None else []
    points = [(float(step), value) for step, value in trace.points]
    chart = series_chart(
        trace.words[:1].upper() + trace.words[1:],
        [Series("m0", "", _thinned(points))],
        bounds=value_bounds(values),
        level=level,
        marks=marks,
    )
    return (trace, chart) if chart else None


def _thinned(points: Any) -> list[tuple[float, float]]:
    """At most some dozens of points, each the mean of its neighbours."""
    size = -(-len(points) // _POINTS) or 1
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(float(part[-1][0]), sum(value for _, value in part) / len(part)) for part in parts]


def _case(case: BadCase) -> AuditCaseBody:
    return AuditCaseBody(
        sample_id=case.sample_id,
        mode=case.mode,
        attack=case.attack,
        question=case.question,
        response=case.response,
        criteria=[_misjudged(one) for one in case.criteria],
    )


def _misjudged(one: MisjudgedCriterion) -> MisjudgedBody:
    return MisjudgedBody(
        criterion=one.criterion.criterion,
        weight=one.criterion.weight,
        essential=one.criterion.essential,
        deserved=one.annotation.credit,
        settings={
            setting: credit.verdict.credit
            for credit in one.credits
            for setting in credit.settings
            if credit.verdict.credit is not None
        },
        reasoning=one.credits[0].verdict.reasoning if one.credits else None,
    )
