"""Routes of evaluations: rows of scores, and leaderboards as JSON, CSV, Markdown and a page."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from rubricworks.evaluation.leaderboard import Row
from rubricworks.platform_api.cursors import encode_cursor, row_cursor
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import PROBLEMS, Cursor, Limit, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.rubrics import next_table, table_cursor
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.routers.tagged_route import TaggedRoute
from rubricworks.platform_api.schemas.evaluations import (
    BoardBody,
    EvaluationBody,
    EvaluationPage,
    ScoreBody,
    ScoreRowPage,
)
from rubricworks.platform_api.services import leaderboards, run_tables, runs, score_rows
from rubricworks.platform_api.services.score_rows import ScoreFilter
from rubricworks.reports.leaderboard import board_parts, leaderboard_csv, leaderboard_markdown

router = APIRouter(prefix="/api/v1", tags=["evaluations"], responses=PROBLEMS, route_class=TaggedRoute)
page_router = APIRouter(include_in_schema=False)
_LATEST = 3
"""Runs of a board that names none."""
RunNames = Annotated[
    list[str], Query(alias="run", max_length=leaderboards.MOST_RUNS, description="By default the last evaluated ones")
]
Against = Annotated[str | None, Query(max_length=200, description="Model that the others are compared with")]
EveryFigure = Annotated[bool, Query(alias="all", description="Every part of every scorer, not only the first")]


async def get_scores(run: RunName, stage: StageName, session: SessionOf) -> RunTable:
    """The table of scores of a stage."""
    await runs.get_run(session, run)
    return await run_tables.get_table(session, run, stage, leaderboards.KIND)


async def get_filter(
    sample_id: Annotated[str | None, Query(max_length=200)] = None,
    model: Annotated[str | None, Query(max_length=200)] = None,
    scorer: Annotated[str | None, Query(max_length=200)] = None,
) -> ScoreFilter:
    """Values that the rows of scores have."""
    return ScoreFilter(sample_id, model, scorer)


ScoresOf = Annotated[RunTable, Depends(get_scores)]
Wanted = Annotated[ScoreFilter, Depends(get_filter)]


@router.get("/evaluations", summary="List the runs that have scores, the last written first")
async def list_evaluations(
    session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> EvaluationPage:
    found = await leaderboards.list_evaluations(session, before=table_cursor(cursor), limit=limit + 1)
    items = [
        EvaluationBody(run=one.run, stage=one.path, scores=one.rows, modified=one.modified) for one in found[:limit]
    ]
    return EvaluationPage(items=items, next_cursor=next_table(found, limit))


@router.get("/runs/{run}/stages/{stage}/scores", summary="List the rows of a stage's scores")
async def list_scores(
    scores: ScoresOf, wanted: Wanted, store: StoreOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> ScoreRowPage:
    page = await score_rows.list_scores(store, scores, wanted, row_cursor(cursor), limit)
    return ScoreRowPage(
        items=[ScoreBody.model_validate(row) for row in page.rows],
        next_cursor=encode_cursor(page.next_start) if page.next_start is not None else None,
    )


@router.get(
    "/runs/{run}/stages/{stage}/scores/csv",
    summary="The rows of a stage's scores as CSV",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "One line per score"}},
)
async def export_scores(scores: ScoresOf, wanted: Wanted, store: StoreOf, viewer: Viewer) -> Response:
    headers = {"Content-Disposition": 'attachment; filename="scores.csv"'}
    lines = score_rows.scores_csv(store, scores, wanted)
    return StreamingResponse(lines, media_type="text/csv", headers=headers)


@router.get("/leaderboard", summary="Models of some runs against their scorers, with paired differences")
async def show_leaderboard(
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    run: RunNames = [],  # noqa: B006
    against: Against = None,
    every_figure: EveryFigure = False,
) -> BoardBody:
    names = await _names(session, run)
    if not names:
        return BoardBody(runs=[], simulated=False, board=None)
    board, simulated = await leaderboards.build(session, store, names, against=against, every_figure=every_figure)
    return BoardBody(runs=names, simulated=simulated, board=board)


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
    viewer: Viewer,
    run: RunNames = [],  # noqa: B006
    against: Against = None,
    every_figure: EveryFigure = False,
) -> Response:
    names = await _names(session, run)
    if not names:
        raise NotFound("no run has scores yet")
    board, _ = await leaderboards.build(session, store, names, against=against, every_figure=every_figure)
    if form == "markdown":
        return PlainTextResponse(leaderboard_markdown(board), media_type="text/markdown")
    headers = {"Content-Disposition": 'attachment; filename="leaderboard.csv"'}
    return PlainTextResponse(leaderboard_csv(board), media_type="text/csv", headers=headers)


@page_router.get("/leaderboard")
async def leaderboard_page(
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    run: RunNames = [],  # noqa: B006
    against: Against = None,
    every_figure: EveryFigure = False,
) -> Response:
    found = await leaderboards.list_evaluations(session, limit=PAGE)
    evaluations = [one for one in found if one.path == leaderboards.STAGE]
    names = run or [one.run for one in evaluations[:_LATEST]]
    built = (
        await leaderboards.build(session, store, names, against=against or None, every_figure=every_figure)
        if names
        else None
    )
    return draw_page(
        request,
        viewer,
        "leaderboard_page.html",
        evaluations=evaluations,
        chosen=names,
        against_name=against,
        every_figure=every_figure,
        simulated=built[1] if built else False,
        models=list(dict.fromkeys(_name(row) for row in built[0].rows)) if built else [],
        query=request.url.query,
        **(board_parts(built[0]) if built else {"board": None}),
    )


def _name(row: Row) -> str:
    """A model's name without the revision, by which the board tells two of one name apart."""
    return row.model.removesuffix(f" ({row.revision[:8] or 'no revision'})")


async def _names(session: SessionOf, runs: list[str]) -> list[str]:
    if runs:
        return runs
    found = await leaderboards.list_evaluations(session, limit=PAGE)
    return [one.run for one in found if one.path == leaderboards.STAGE][:_LATEST]
