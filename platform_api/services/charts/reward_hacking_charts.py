"""Charts of the page of reward hacking: a training's signals beside their limits, an audit's figures and examples."""

from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.services import reward_hacking, rollouts
from rubricworks.platform_api.services.reward_hacking import Signals
from rubricworks.reports.charts import Series, SeriesChart, series_chart, value_bounds
from rubricworks.reports.judge_audit import audit_figure, audit_headline, audit_sentences, table_rows
from rubricworks.reports.judge_audit_cases import BadCase
from rubricworks.runs.store import RunStore
from rubricworks.training.policy.alarm_traces import Trace

_CASES = 8
_POINTS = 40
"""Points of the reward beside the few of the held-out judge."""


class TrainingCharts(NamedTuple):
    """Signals of a training, drawn."""

    stage: str
    signals: Signals
    overview: SeriesChart | None
    charts: list[tuple[Trace, SeriesChart]]


class AuditFigures(NamedTuple):
    """Figures of an audit, and a page of its examples."""

    stage: str
    figures: AuditSummary
    figure: Any
    headline: str
    sentences: list[str]
    rows: Any
    cases: list[BadCase]
    case_count: int
    next_start: int | None
    """Number of the case with which the next page begins."""


async def training_charts(session: AsyncSession, store: RunStore, run: str) -> list[TrainingCharts]:
    """Charts of each training of a run that wrote statistics."""
    trainings = []
    for stage in await rollouts.stages_with_rollouts(session, run):
        try:
            signals = await reward_hacking.training_signals(session, store, run, stage)
        except NotFound:
            continue
        charts = [chart for one in signals.traces if (chart := _trace_chart(one))]
        trainings.append(TrainingCharts(stage, signals, _overview(signals), charts))
    return trainings


async def audit_figures(store: RunStore, audit: RunTable, mode: str | None, start: int) -> AuditFigures:
    """Figures of an audit, with the examples from a place on.

    Args:
        mode: name of a failure mode, for its examples alone.
    """
    figures = await reward_hacking.audit_summary(store, audit)
    cases = await reward_hacking.audit_cases(store, audit, mode)
    return AuditFigures(
        stage=audit.path,
        figures=figures,
        figure=audit_figure(figures),
        headline=audit_headline(figures),
        sentences=audit_sentences(figures),
        rows=table_rows(figures),
        cases=cases[start : start + _CASES],
        case_count=len(cases),
        next_start=start + _CASES if start + _CASES < len(cases) else None,
    )


def _overview(signals: Signals) -> SeriesChart | None:
    """Reward, held-out judge and the measure that training does not see, in one frame."""
    series = [Series("m0", "reward", _thinned(signals.rewards)), Series("m1", "held-out", signals.held_out)]
    if signals.measure:
        series.append(Series("m2", f"{signals.measure.scorer} {signals.measure.part}", signals.measure.points))
    values = [value for one in series for _, value in one.points]
    marks = [(float(signals.alarm["step"]), f"alarm, step {signals.alarm['step']}")] if signals.alarm else []
    bounds = (min(0.0, *values), max(1.0, *values)) if values else (0.0, 1.0)
    return series_chart("Reward, and what training does not see", series, bounds=bounds, marks=marks)


def _trace_chart(trace: Trace) -> tuple[Trace, SeriesChart] | None:
    """A statistic's window means with the limit that it is nearest to."""
    limits = [(limit, "limit") for limit in (trace.high, trace.low) if limit is not None]
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
