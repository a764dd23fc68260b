"""Routes of evaluations: rows of scores, leaderboards, signals of reward hacking, audits of judges."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from starlette.background import BackgroundTask

from rubricworks.evaluation.audit.summary import AuditSummary
from rubricworks.evaluation.audit.values import MODE_NAMES, FailureMode
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.pagination import list_page
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    Against,
    EveryFigure,
    PageOf,
    RunNames,
    RunOf,
    SessionOf,
    StageName,
    StoreOf,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.evaluations import (
    AuditBody,
    AuditCaseBody,
    BoardBody,
    EvaluationBody,
    ScoreBody,
    SignalsBody,
)
from rubricworks.platform_api.services import evaluations, reward_hacking, runs
from rubricworks.platform_api.services.evaluations import ScoreFilter
from rubricworks.reports.leaderboard import leaderboard_csv, leaderboard_markdown

_PART_BYTES = 64 * 1024
router = APIRouter(
    prefix="/api/v1", tags=["evaluations"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS]
)
hacking_router = APIRouter(
    prefix="/api/v1/runs/{run}",
    tags=["reward hacking"],
    responses=PROBLEMS,
    route_class=KeyedRoute,
    dependencies=[VIEWERS],
)


async def get_scores(run: RunOf, stage: StageName, session: SessionOf) -> RunTable:
    """The table of scores of a stage."""
    return await runs.get_table(session, run.name, stage, evaluations.KIND)


async def get_audit(run: RunOf, stage: StageName, session: SessionOf) -> RunTable:
    """The audit's table of a stage."""
    return await runs.get_table(session, run.name, stage, reward_hacking.AUDIT)


async def get_filter(
    sample_id: Annotated[str | None, Query(max_length=200)] = None,
    model: Annotated[str | None, Query(max_length=200)] = None,
    scorer: Annotated[str | None, Query(max_length=200)] = None,
) -> ScoreFilter:
    """Values that the rows of scores have."""
    return ScoreFilter(sample_id, model, scorer)


ScoresOf = Annotated[RunTable, Depends(get_scores)]
AuditOf = Annotated[RunTable, Depends(get_audit)]
Wanted = Annotated[ScoreFilter, Depends(get_filter)]


@router.get("/evaluations", summary="List the runs that have scores, the last written first")
async def list_evaluations(session: SessionOf, asked: PageOf) -> Page[EvaluationBody]:
    return await evaluations.list_evaluations(session, asked)


@router.get("/runs/{run}/stages/{stage}/scores", summary="List the rows of a stage's scores")
async def list_scores(scores: ScoresOf, wanted: Wanted, store: StoreOf, asked: PageOf) -> Page[ScoreBody]:
    """With rare filters a page may contain fewer than `limit` rows; follow `next_cursor`."""
    return await evaluations.list_scores(store, scores, wanted, asked)


@router.get(
    "/runs/{run}/stages/{stage}/scores/csv",
    summary="The rows of a stage's scores as CSV",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "One line per score"}},
)
async def export_scores(scores: ScoresOf, wanted: Wanted, store: StoreOf) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="scores.csv"'}
    file = await asyncio.to_thread(evaluations.scores_csv, store, scores, wanted)
    parts = iter(lambda: file.read(_PART_BYTES), b"")
    return StreamingResponse(parts, media_type="text/csv", headers=headers, background=BackgroundTask(file.close))


@router.get("/leaderboard", summary="Models of some runs against their scorers, with paired differences")
async def show_leaderboard(
    session: SessionOf,
    store: StoreOf,
    run: RunNames = [],  # noqa: B006
    against: Against = None,
    every_figure: EveryFigure = False,
) -> BoardBody:
    return await evaluations.board_of(session, store, run, against, every_figure=every_figure)


@router.get(
    "/leaderboard/{form}",
    summary="The leaderboard as CSV or Markdown",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}, "text/markdown": {}}, "description": "One line per model and figure"}},
)
async def export_leaderboard(
    form: Literal["csv", "markdown"],
    session: SessionOf,
    store: StoreOf,
    run: RunNames = [],  # noqa: B006
    against: Against = None,
    every_figure: EveryFigure = False,
) -> Response:
    board = (await evaluations.board_of(session, store, run, against, every_figure=every_figure)).board
    if board is None:
        raise NotFound("no run has scores yet")
    if form == "markdown":
        return PlainTextResponse(leaderboard_markdown(board), media_type="text/markdown")
    headers = {"Content-Disposition": 'attachment; filename="leaderboard.csv"'}
    return PlainTextResponse(leaderboard_csv(board), media_type="text/csv", headers=headers)


@hacking_router.get(
    "/stages/{stage}/signals", summary="Reward, held-out scores and the alarm's statistics of a training"
)
async def show_signals(store: StoreOf, run: RunOf, stage: StageName, session: SessionOf) -> SignalsBody:
    return (await reward_hacking.training_signals(session, store, run.name, stage)).signals


@hacking_router.get("/audits", summary="List the audits of a run")
async def list_audits(run: RunOf, session: SessionOf, asked: PageOf) -> Page[AuditBody]:
    audits = await reward_hacking.list_audits(session, run.name)
    return list_page([AuditBody(stage=audit.path, rows=audit.rows) for audit in audits], asked)


@hacking_router.get("/stages/{stage}/audit", summary="Figures of an audit")
async def show_audit(audit: AuditOf, store: StoreOf) -> AuditSummary:
    return await reward_hacking.audit_summary(store, audit)


@hacking_router.get(
    "/stages/{stage}/audit/cases", summary="Responses with credit that they do not deserve, the worst first"
)
async def list_cases(
    audit: AuditOf, store: StoreOf, asked: PageOf, mode: FailureMode | None = None
) -> Page[AuditCaseBody]:
    page = list_page(await reward_hacking.audit_cases(store, audit, MODE_NAMES[mode] if mode else None), asked)
    return Page(items=[AuditCaseBody.of(case) for case in page.items], next_cursor=page.next_cursor)
