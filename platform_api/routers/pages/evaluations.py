"""Pages of evaluations: the leaderboard, and what hints at reward hacking."""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response

from rubricworks.evaluation.audit.values import FAILURE_MODES, MODE_NAMES, FailureMode
from rubricworks.evaluation.leaderboard import Row
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.routers.dependencies import (
    PAGE,
    Against,
    Cursor,
    EveryFigure,
    RunNames,
    RunOf,
    SessionOf,
    StoreOf,
    TabsOf,
    Viewer,
)
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.services import evaluations, reward_hacking
from rubricworks.platform_api.services.samples import file_names
from rubricworks.reports.leaderboard import board_parts

router = APIRouter(include_in_schema=False)


@router.get("/leaderboard")
async def leaderboard_page(
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    run: RunNames = [],  # noqa: B006
    against: Against = None,
    every_figure: EveryFigure = False,
) -> Response:
    page = await evaluations.list_evaluations(session, PageRequest(limit=PAGE))
    shown = await evaluations.board_of(session, store, run, against or None, every_figure=every_figure)
    return draw_page(
        request,
        viewer,
        "leaderboard_page.html",
        evaluations=[evaluation for evaluation in page.items if evaluation.stage == evaluations.STAGE],
        chosen=shown.runs,
        every_figure=every_figure,
        simulated=shown.simulated,
        models=list(dict.fromkeys(_name(row) for row in shown.board.rows)) if shown.board else [],
        query=request.url.query,
        **(board_parts(shown.board) if shown.board else {"board": None}),
    )


@router.get("/runs/{run}/hacking")
async def hacking_page(
    store: StoreOf,
    run: RunOf,
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    links: TabsOf,
    mode: FailureMode | Literal[""] = "",
    cursor: Cursor = None,
) -> Response:
    name = MODE_NAMES[mode] if mode else None
    audits = [
        await reward_hacking.audit_figures(store, audit, name, cursor)
        for audit in await reward_hacking.list_audits(session, run.name)
    ]
    shown = {case.sample_id for audit in audits for case in audit.cases.items}
    return draw_page(
        request,
        viewer,
        "hacking.html",
        links=links,
        run=run,
        trainings=await reward_hacking.signals_of_trainings(session, store, run.name),
        audits=audits,
        file_names=await file_names(session, run.name, shown),
        mode=mode,
        modes={mode: MODE_NAMES[mode] for mode in FAILURE_MODES},
        mode_names=MODE_NAMES,
    )


def _name(row: Row) -> str:
    """A model's name without the revision that distinguishes two models of one name."""
    return row.model.removesuffix(f" ({row.revision[:8] or 'no revision'})")
