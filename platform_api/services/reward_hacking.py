"""Reward hacking: reward and held-out judge, the alarm's statistics, the audit of the judge."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.data.alarm import ALARM_FILE
from rubricworks.evaluation.audit.summary import SUMMARY_FILE, AuditSummary, parse_audit_row
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.pagination import PageRequest, list_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.evaluations import FiredAlarm, MeasureBody, SignalsBody, TraceBody
from rubricworks.platform_api.services.recent_values import remember
from rubricworks.platform_api.services.rollouts import stages_with_rollouts
from rubricworks.platform_api.services.runs import list_tables, open_table, read_file, read_object, read_steps
from rubricworks.reports.charts import Series, SeriesChart, series_chart, value_bounds
from rubricworks.reports.judge_audit import audit_figure, audit_headline, audit_sentences, table_rows
from rubricworks.reports.judge_audit_cases import BadCase, worst_cases
from rubricworks.runs.store import RunStore
from rubricworks.runs.tables import parse_cell
from rubricworks.storage.plain_json import plain_json
from rubricworks.training.policy.alarm import held_out_mean, read_step
from rubricworks.training.policy.alarm_traces import alarm_traces, known_statistics

AUDIT = "audit"
"""Schema of an audit's table; `audit.json` beside it has its figures."""
CASES = 8
"""Examples of a drawn page."""
_MEASURES = (("oracle", "f1"), ("answers", "right"), ("geneval", "correct"), ("arena", "win"))
"""Scorers that training never asks, the most independent one first."""
_MOST_CASES = 400
_POINTS = 40
"""Points of the reward's curve, next to the few of the held-out judge."""


class TrainingSignals(NamedTuple):
    """Signals of a training, and the step from which its alarm can fire."""

    stage: str
    signals: SignalsBody
    steps: int
    """Number of steps with statistics."""

    @property
    def overview(self) -> SeriesChart | None:
        """Reward, held-out judge and the measure that training does not see, in one frame."""
        rewards, alarm, measure = _thinned(self.signals.rewards), self.signals.alarm, self.signals.measure
        series = [Series("m0", "reward", rewards), Series("m1", "held-out", self.signals.held_out)]
        if measure:
            series.append(Series("m2", f"{measure.scorer} {measure.part}", measure.points))
        values = [value for line in series for _, value in line.points]
        marks = [(float(alarm.step), f"alarm, step {alarm.step}")] if alarm else []
        bounds = (min(0.0, *values), max(1.0, *values)) if values else (0.0, 1.0)
        return series_chart("Reward, and what training does not see", series, bounds=bounds, marks=marks)

    @property
    def charts(self) -> list[tuple[TraceBody, SeriesChart]]:
        """The loss with its limit, and each statistic."""
        return [(trace, chart) for trace in self.signals.traces if (chart := _trace_chart(trace))]


class AuditFigures(NamedTuple):
    """Figures of an audit, and a page of its examples."""

    stage: str
    figures: AuditSummary
    figure: Any
    headline: str
    sentences: list[str]
    rows: Any
    cases: Page[BadCase]
    case_count: int


async def training_signals(session: AsyncSession, store: RunStore, run: str, stage: str) -> TrainingSignals:
    """Signals of a training, from the statistics that it wrote at each step.

    Raises:
        NotFound: it wrote none.
    """
    rows = await read_steps(store, run, stage, 0)
    if not rows:
        raise NotFound(f"{stage} of {run} has no statistics of steps")
    steps = [read_step(row) for row in rows]
    known = known_statistics()
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name in known]
    replayed = alarm_traces(steps, [known[name] for name in names])
    signals = SignalsBody(
        rewards=[(step.step, step.reward) for step in steps if not math.isnan(step.reward)],
        held_out=[(step, mean) for step, mean in map(held_out_mean, steps) if not math.isnan(mean)],
        measure=await _measure(session, store, run, stage, steps[-1].step),
        every=replayed.every,
        least_steps=replayed.least_steps,
        traces=[TraceBody.model_validate(trace) for trace in replayed.traces],
        alarm=_fired(await read_object(store, run, f"{stage}/{ALARM_FILE}")),
    )
    return TrainingSignals(stage, signals, len(steps))


async def signals_of_trainings(session: AsyncSession, store: RunStore, run: str) -> list[TrainingSignals]:
    """Signals of each training of a run that wrote statistics."""
    trainings = []
    for stage in await stages_with_rollouts(session, run):
        try:
            trainings.append(await training_signals(session, store, run, stage))
        except NotFound:
            continue
    return trainings


async def list_audits(session: AsyncSession, run: str) -> Sequence[RunTable]:
    """Audits of the judges of a run."""
    return await list_tables(session, AUDIT, run=run)


async def audit_summary(store: RunStore, audit: RunTable) -> AuditSummary:
    """Figures of an audit.

    Raises:
        NotFound: it has written none.
    """
    path = f"{audit.path}/{SUMMARY_FILE}"
    content = await read_file(store, audit.run, path)
    if content is None:
        raise NotFound(f"{audit.path} of {audit.run} has no figures yet")
    return parse_cell(f"{audit.run}/{path}", lambda text: AuditSummary.model_validate(plain_json(text)), content)


async def audit_cases(store: RunStore, audit: RunTable, mode: str | None) -> list[BadCase]:
    """Responses with undeserved credit, the worst first, alternating over failure modes.

    Args: mode: only cases of this failure mode.
    """
    cases = await remember(_worst, (store.uri, audit.run, audit.path, audit.modified), store, audit)
    return [case for case in cases if mode is None or case.mode == mode]


async def audit_figures(store: RunStore, audit: RunTable, mode: str | None, cursor: str | None) -> AuditFigures:
    """Figures of an audit, with some of its examples."""
    figures = await audit_summary(store, audit)
    cases = await audit_cases(store, audit, mode)
    return AuditFigures(
        stage=audit.path,
        figures=figures,
        figure=audit_figure(figures),
        headline=audit_headline(figures),
        sentences=audit_sentences(figures),
        rows=table_rows(figures),
        cases=list_page(cases, PageRequest(cursor, CASES)),
        case_count=len(cases),
    )


def _worst(store: RunStore, audit: RunTable) -> list[BadCase]:
    table = open_table(store, audit)
    rows = [parse_cell(f"{table.name}: sample {row['sample_id']!r}", parse_audit_row, row) for row in table]
    return worst_cases(rows, {}, _MOST_CASES)


async def _measure(session: AsyncSession, store: RunStore, run: str, stage: str, last: int) -> MeasureBody | None:
    values: dict[tuple[str, str], defaultdict[int, list[float]]] = {}
    trained = {"policy", stage.removeprefix("train_")}
    for table in await list_tables(session, "scores", run=run):
        for row in await asyncio.to_thread(open_table(store, table).rows):
            measure = (row["scorer"], row["part"])
            if measure not in _MEASURES or row["value"] is None or row["decoding"] != "greedy":
                continue
            if row["model"] == "base":
                step = 0
            elif row["model"] in trained:
                step = last if row["step"] is None else row["step"]
            else:
                continue
            values.setdefault(measure, defaultdict(list))[step].append(row["value"])
    for scorer, part in _MEASURES:
        of_steps = sorted(values.get((scorer, part), {}).items())
        if len(of_steps) > 1:
            points = [(step, math.fsum(scores) / len(scores)) for step, scores in of_steps]
            return MeasureBody(scorer=scorer, part=part, points=points)
    return None


def _fired(content: object) -> FiredAlarm | None:
    try:
        return FiredAlarm.model_validate(content)
    except ValidationError:
        return None


def _trace_chart(trace: TraceBody) -> SeriesChart | None:
    if not trace.points:
        return None
    level = None if trace.high is None else (trace.high, "limit")
    values = [*(() if level is None else (level[0],)), *(value for _, value in trace.points)]
    marks = [(float(trace.crossed), f"step {trace.crossed}")] if trace.crossed is not None else []
    title = trace.words[:1].upper() + trace.words[1:]
    series = [Series("m0", "", _thinned(trace.points))]
    return series_chart(title, series, bounds=value_bounds(values), level=level, marks=marks)


def _thinned(points: Sequence[tuple[int, float]]) -> list[tuple[float, float]]:
    """At most some dozens of points, each the mean of its neighbours."""
    size = -(-len(points) // _POINTS) or 1
    parts = [points[start : start + size] for start in range(0, len(points), size)]
    return [(float(part[-1][0]), sum(value for _, value in part) / len(part)) for part in parts]
