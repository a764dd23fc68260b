"""Pages of rollouts: a training's groups step by step, a group's responses with their verdicts, its criteria."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from rubricworks.platform_api.cursors import decode_cursor, encode_cursor
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import Cursor, SessionOf, StoreIfAny, StoreOf, Viewer
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.rollouts import ResponseDigest, SampleId, Step
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.services import rollouts, runs
from rubricworks.platform_api.services.judges import judge_requests
from rubricworks.platform_api.services.labels import response_digest
from rubricworks.platform_api.services.rubrics.graded_rubrics import find_rubric, met_weight
from rubricworks.platform_api.services.samples import find_sample
from rubricworks.platform_api.services.simulations import is_simulated

router = APIRouter(include_in_schema=False)
_FLIPS = 100
"""Groups of a page that differ on a criterion, which have no images."""


@router.get("/runs/{run}/rollouts/{stage}")
async def rollouts_page(
    run: RunName,
    stage: StageName,
    request: Request,
    session: SessionOf,
    store: StoreIfAny,
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
    place: Any = decode_cursor(cursor, int, str) if cursor is not None else None
    flips = await rollouts.flips(session, run, stage, criterion, after=place, limit=_FLIPS) if criterion else None
    if step is None and sample_id is None and cursor is None and flips is None:
        step = steps[1]
    groups = await rollouts.list_groups(
        session, run, stage, step=step, sample_id=sample_id, after=place, limit=PAGE + 1
    )
    last = groups[PAGE - 1] if len(groups) > PAGE else None
    return draw_page(
        request,
        viewer,
        "rollouts.html",
        run=record,
        simulated=await is_simulated(store, record),
        stage=stage,
        steps=steps,
        step=step,
        sample_id=sample_id,
        criterion=criterion,
        flips=flips,
        flips_cursor=encode_cursor(*flips.last) if flips and flips.last else None,
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
    order: Literal["best", "ends"] = "best",
) -> Response:
    record = await runs.get_run(session, run)
    members = await rollouts.get_group(session, store, run, stage, step, sample_id)
    if order == "ends":
        members = rollouts.ends_first(members)
    criteria: list[dict[str, Any]] = next((one["verdicts"] for one in members if one["verdicts"]), [])
    rubric = await find_rubric(session, store, run, sample_id, [one["criterion"] for one in criteria])
    before, after = await rollouts.neighbours(session, run, stage, step, sample_id)
    return draw_page(
        request,
        viewer,
        "group.html",
        run=record,
        simulated=await is_simulated(store, record),
        stage=stage,
        step=step,
        sample_id=sample_id,
        sample=await find_sample(session, store, run, sample_id),
        members=members,
        order=order,
        criteria=criteria,
        rubric=rubric,
        weight=met_weight(rubric, members) if rubric else None,
        digests={one["response"]: response_digest(one["response"]) for one in members},
        before=before,
        after=after,
    )


@router.get("/runs/{run}/rollouts/{stage}/{step}/{sample_id}/exchange")
async def exchange_page(
    run: RunName,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    response: ResponseDigest,
) -> Response:
    record = await runs.get_run(session, run)
    exchange = await judge_requests.exchange_of(session, store, run, stage, step, sample_id, response)
    return draw_page(
        request,
        viewer,
        "exchange.html",
        run=record,
        stage=stage,
        step=step,
        sample_id=sample_id,
        exchange=exchange,
        member=exchange.member,
    )


@router.get("/runs/{run}/criteria/{stage}")
async def criteria_page(
    run: RunName, stage: StageName, request: Request, session: SessionOf, viewer: Viewer
) -> Response:
    record = await runs.get_run(session, run)
    figures = await rollouts.list_criteria(session, run, stage)
    return draw_page(request, viewer, "criteria.html", run=record, stage=stage, figures=figures)
