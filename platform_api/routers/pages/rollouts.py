"""Pages of rollouts: a training's groups step by step, a group's responses with their verdicts, its criteria."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from rubricworks.platform_api.pagination import PageRequest, decode_cursor
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.routers.dependencies import (
    DrawnPageOf,
    ResponseDigest,
    RolloutViewOf,
    RunOf,
    SampleId,
    SessionOf,
    StageName,
    Step,
    StoreOf,
    TabsOf,
    Viewer,
)
from rubricworks.platform_api.routers.pages.drawing import address, draw_page
from rubricworks.platform_api.schemas.rollouts import RolloutPage
from rubricworks.platform_api.services import rollout_search, rollouts
from rubricworks.platform_api.services.judgements import judge_requests
from rubricworks.platform_api.services.judgements.labels import response_digest
from rubricworks.platform_api.services.rubrics.rubric_sets import find_rubric, met_weight
from rubricworks.platform_api.services.samples import file_names, find_sample

router = APIRouter(include_in_schema=False)
_CRITERIA = 500
"""Criteria among which a list of rollouts lets its reader choose."""
_FLIPS = 100
"""Groups of a page that differ on a criterion, which have no images."""


@router.get("/runs/{run}/rollouts/{stage}")
async def rollouts_page(
    run: RunOf,
    stage: StageName,
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    asked: DrawnPageOf,
    links: TabsOf,
    step: Annotated[int | None, Query(ge=0, lt=1 << 31)] = None,
    sample_id: Annotated[str | None, Query(max_length=200)] = None,
    criterion: Annotated[str | None, Query(max_length=2000)] = None,
    file: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    steps = await rollouts.step_range(session, run.name, stage)
    if steps is None:
        raise NotFound(f"{stage} of {run.name} has no rollouts yet")
    flips = groups = None
    if criterion:
        flips = await rollouts.flips(session, run.name, stage, criterion, PageRequest(asked.cursor, _FLIPS))
    else:
        if step is None and sample_id is None and not file and asked.cursor is None:
            step = steps[1]
        groups = await rollouts.list_groups(session, run.name, stage, asked, step=step, sample_id=sample_id, file=file)
    shown = {group.sample_id for group in (flips.items if flips else groups.items if groups else ())}
    return draw_page(
        request,
        viewer,
        "rollouts.html",
        links=links,
        run=run,
        stage=stage,
        steps=steps,
        step=step,
        sample_id=sample_id,
        criterion=criterion,
        file=file,
        file_names=await file_names(session, run.name, shown | ({sample_id} if sample_id else set())),
        flips=flips,
        searched=decode_cursor(flips.next_cursor, int, str)[0] if flips and flips.next_cursor else None,
        groups=groups,
    )


@router.get("/runs/{run}/responses/{stage}")
async def responses_page(
    run: RunOf,
    stage: StageName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    asked: DrawnPageOf,
    links: TabsOf,
    view: RolloutViewOf,
) -> Response:
    steps = await rollouts.step_range(session, run.name, stage)
    if steps is None:
        raise NotFound(f"{stage} of {run.name} has no rollouts yet")
    problem, page = "", RolloutPage(items=[], next_cursor=None, is_cut=False)
    try:
        page = await rollout_search.find_rollouts(
            session, store, run.name, stage, view.wanted, asked, view.sort, ascending=view.order == "asc"
        )
    except BadRequest as error:
        if not view.wanted.truncated:
            raise
        problem = error.detail
    criteria = await rollouts.criterion_names(session, run.name, stage)
    return draw_page(
        request,
        viewer,
        "responses.html",
        status=422 if problem else 200,
        run=run,
        stage=stage,
        links=links,
        steps=steps,
        view=view,
        page=page,
        problem=problem,
        criteria=criteria[:_CRITERIA],
        marked=rollout_search.marked,
        is_filtered=any(value not in ("", None, False) for value in view.wanted),
        file_names=await file_names(session, run.name, {rollout.sample_id for rollout in page.items}),
        link=partial(address, request),
    )


@router.get("/runs/{run}/rollouts/{stage}/{step}/{sample_id}")
async def group_page(
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    order: Literal["best", "ends"] = "best",
    response: Annotated[str, Query(pattern=r"^([0-9a-f]{16})?$", description="Response that is marked")] = "",
) -> Response:
    members = (await rollouts.get_group(session, store, run.name, stage, step, sample_id)).rollouts
    if order == "ends":
        members = rollouts.ends_first(members)
    criteria = next((member.verdicts for member in members if member.verdicts), [])
    titles = [verdict.criterion for verdict in criteria]
    rubric = await find_rubric(session, store, run.name, sample_id, titles)
    before, after = await rollouts.neighbours(session, run.name, stage, step, sample_id)
    return draw_page(
        request,
        viewer,
        "group.html",
        run=run,
        stage=stage,
        step=step,
        sample_id=sample_id,
        sample=await find_sample(session, store, run.name, sample_id),
        file_names=await file_names(session, run.name, [sample_id]),
        members=members,
        order=order,
        marked=response,
        criteria=criteria,
        rubric=rubric,
        weight=met_weight(rubric, members) if rubric else None,
        digests={member.response: response_digest(member.response) for member in members},
        before=before,
        after=after,
    )


@router.get("/runs/{run}/rollouts/{stage}/{step}/{sample_id}/exchange")
async def exchange_page(
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    response: ResponseDigest,
) -> Response:
    exchange = await judge_requests.exchange_of(session, store, run.name, stage, step, sample_id, response)
    return draw_page(
        request,
        viewer,
        "exchange.html",
        run=run,
        stage=stage,
        step=step,
        sample_id=sample_id,
        exchange=exchange.body,
        file_names=await file_names(session, run.name, [sample_id]),
        member=exchange.member,
    )


@router.get("/runs/{run}/criteria/{stage}")
async def criteria_page(
    run: RunOf, stage: StageName, request: Request, session: SessionOf, viewer: Viewer, links: TabsOf
) -> Response:
    figures = await rollouts.list_criteria(session, run.name, stage)
    return draw_page(request, viewer, "criteria.html", run=run, stage=stage, figures=figures, links=links)
