"""Prometheus metrics of the service: responses, runs, stages, the project's budget, promotions.

Everything but the times of answers comes from the database, so each replica tells the same of it. A judge's calls are
counted by the run that makes them (`llm.telemetry`), and a served model's by vLLM itself.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rubricworks import __version__
from rubricworks.platform_api.db.tables import Change, Delivery, Promotion, Run, RunTable
from rubricworks.platform_api.project import Project
from rubricworks.platform_api.schemas.promotions import DriftBody
from rubricworks.platform_api.services.project_use import project_use
from rubricworks.platform_api.services.runs import count_runs
from rubricworks.runs.dead_letters import LETTERS

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BREAK_GLASS = "break_glass"
"""Action of the audit log: a use of the environment's token where people log in."""
_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_UNROUTED = "other"
"""Route of requests that are refused before a route is chosen, or that no route has."""


class RequestTimes:
    """ASGI middleware that measures each answer until its first byte, by route, method and status."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        begin = time.perf_counter()

        async def send_measured(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", _UNROUTED)
                seconds: Histogram = scope["app"].state.request_seconds
                method = scope["method"] if scope["method"] in _METHODS else _UNROUTED  # a caller may write anything
                seconds.labels(route, method, str(message["status"])).observe(time.perf_counter() - begin)
            await send(message)

        await self.app(scope, receive, send_measured)


def request_histogram() -> Histogram:
    """The times of one application's answers."""
    return Histogram(
        "rubricworks_http_request_seconds",
        "Seconds until the answer begins",
        ["route", "method", "status"],
        registry=CollectorRegistry(),
        buckets=_BUCKETS,
    )


class _Figures(Collector):
    """Figures that were read already."""

    def __init__(self, figures: Iterable[Metric]) -> None:
        self._figures = list(figures)

    def collect(self) -> Iterable[Metric]:
        return self._figures


async def metrics_text(
    session: AsyncSession,
    project: Project | None,
    drift: Iterable[DriftBody],
    request_seconds: Histogram,
    *,
    is_behind: bool,
) -> str:
    """All figures in Prometheus' text format.

    Args:
        is_behind: the storage of runs does not answer, so that the index may be out of date.
    """
    differences = {(str(difference.kind), difference.model) for difference in drift}
    waiting = await session.scalar(select(func.count()).where(Delivery.due_at.is_not(None)))
    broken = await session.scalar(select(func.count()).where(Change.action == BREAK_GLASS))
    promotions = await session.execute(select(Promotion.state, func.count()).group_by(Promotion.state))
    drifts = {(kind, model): 1.0 for kind, model in sorted(differences)} or {("", ""): 0.0}
    info = {(project.name if project else "", __version__): 1.0}
    registry = CollectorRegistry()
    registry.register(
        _Figures(
            [
                _gauge("rubricworks_info", "Project and version of the service", ["project", "version"], info),
                _gauge("rubricworks_runs", "Runs by state", ["state"], _keyed((await count_runs(session)).items())),
                _gauge("rubricworks_promotions", "Promotions by state", ["state"], _keyed(promotions.all())),
                _gauge("rubricworks_messages_waiting", "Messages to the consumer that wait", [], {(): waiting or 0}),
                _gauge(
                    "rubricworks_promotion_drift",
                    "1 where registry, database and consumer differ",
                    ["kind", "model"],
                    drifts,
                ),
                _gauge("rubricworks_index_behind", "1 while the storage does not answer", [], {(): float(is_behind)}),
                CounterMetricFamily(
                    "rubricworks_break_glass", "Logged uses of the environment's token where people log in", broken
                ),
                *await _project_figures(session, project),
                *await _stage_figures(session),
            ]
        )
    )
    registry.register(_Figures(request_seconds.collect()))
    return generate_latest(registry).decode()


async def _project_figures(session: AsyncSession, project: Project | None) -> list[Metric]:
    use = await project_use(session, project)
    figures = {
        "dollars": ("Dollars that the runs of this month spent", use.dollars),
        "budget_dollars": ("Dollars that the runs of a month may spend", use.dollars_a_month),
        "runs_going": ("Runs that are going or start", use.runs_going),
        "runs_at_once": ("Runs that may go at once", use.runs_at_once),
        "gigabytes": ("Gigabytes of all runs", use.gigabytes),
        "most_gigabytes": ("Gigabytes that all runs may take", use.most_gigabytes),
    }
    return [
        _gauge(f"rubricworks_project_{name}", text, [], {(): float(value)})
        for name, (text, value) in figures.items()
        if value is not None
    ]


async def _stage_figures(session: AsyncSession) -> Iterator[Metric]:
    """Metrics of the stages at work."""
    runs = (await session.execute(select(Run.name, Run.progress, Run.dollars).where(Run.state == "going"))).all()
    at_work = [((run, stage["stage"]), stage) for run, progress, _ in runs for stage in progress]
    letters = await session.execute(
        select(RunTable.run, RunTable.path, RunTable.rows)
        .join(Run, Run.name == RunTable.run)
        .where(Run.state == "going", RunTable.kind == LETTERS, RunTable.rows > 0)
    )
    labels = ["run", "stage"]
    fields = {
        "done": "Items or steps that a stage at work has done",
        "total": "Items or steps of a stage at work",
        "rate": "Items or steps a second",
        "seconds_left": "Seconds that a stage at work has left, by its rate",
    }
    figures = [
        _gauge(
            f"rubricworks_stage_{field}",
            text,
            labels,
            {key: stage[field] for key, stage in at_work if stage.get(field) is not None},
        )
        for field, text in fields.items()
    ]
    spent = {(run,): dollars for run, _, dollars in runs if dollars is not None}
    dead = {(run, path.partition("/")[0]): float(rows) for run, path, rows in letters}
    figures.append(_gauge("rubricworks_run_dollars", "Dollars that a run that is going has spent", ["run"], spent))
    figures.append(_gauge("rubricworks_dead_letters", "Calls without a usable answer of runs at work", labels, dead))
    return iter(figures)


def _gauge(name: str, text: str, labels: list[str], values: Mapping[Any, float]) -> GaugeMetricFamily:
    """A family of figures, by the values of their labels."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _keyed(rows: Iterable[tuple[str, int]]) -> dict[tuple[str, ...], float]:
    return {(state,): float(count) for state, count in sorted(rows)}
