"""Routes of rollouts: groups by step, their verdicts, criteria, images."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from rubricworks.platform_api.pagination import list_page
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    PageOf,
    ResponseDigest,
    RolloutViewOf,
    RunName,
    RunOf,
    SampleId,
    SessionOf,
    StageName,
    Step,
    StoreOf,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import JsonObject, Page
from rubricworks.platform_api.schemas.rollouts import (
    CriterionBody,
    ExchangeBody,
    FlipBody,
    GroupBody,
    GroupDetail,
    RolloutPage,
)
from rubricworks.platform_api.services import rollout_search, rollouts, samples
from rubricworks.platform_api.services.judgements import judge_requests
from rubricworks.platform_api.services.samples import Image

router = APIRouter(
    prefix="/api/v1/runs/{run}",
    tags=["rollouts"],
    responses=PROBLEMS,
    route_class=KeyedRoute,
    dependencies=[VIEWERS],
)
_PICTURE: dict[int | str, JsonObject] = {
    200: {"content": {"image/*": {}}, "description": "The image"},
}


@router.get("/stages/{stage}/groups", summary="List groups of rollouts in the order of their steps")
async def list_groups(
    run: RunOf,
    stage: StageName,
    session: SessionOf,
    asked: PageOf,
    step: Annotated[int | None, Query(ge=0, lt=1 << 31)] = None,
    sample_id: Annotated[str | None, Query(max_length=200)] = None,
    file: Annotated[str, Query(max_length=200, description="Part of the names of the pictures' files")] = "",
) -> Page[GroupBody]:
    return await rollouts.list_groups(session, run.name, stage, asked, step=step, sample_id=sample_id, file=file)


@router.get("/stages/{stage}/rollouts", summary="Search the rollouts of a training one by one")
async def list_rollouts(
    run: RunOf, stage: StageName, session: SessionOf, store: StoreOf, asked: PageOf, view: RolloutViewOf
) -> RolloutPage:
    """Unjudged rollouts are left out of an order by reward, unless `unjudged` is set."""
    return await rollout_search.find_rollouts(
        session, store, run.name, stage, view.wanted, asked, view.sort, ascending=view.order == "asc"
    )


@router.get("/stages/{stage}/groups/{step}/{sample_id}", summary="Show a group with its verdicts")
async def show_group(
    run: RunName, stage: StageName, step: Step, sample_id: SampleId, session: SessionOf, store: StoreOf
) -> GroupDetail:
    return await rollouts.get_group(session, store, run, stage, step, sample_id)


@router.get(
    "/stages/{stage}/groups/{step}/{sample_id}/exchange",
    summary="Requests to the judge about a response, as they were sent or made again, and its answers",
)
async def show_exchange(
    run: RunName,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    session: SessionOf,
    store: StoreOf,
    response: ResponseDigest,
) -> ExchangeBody:
    return (await judge_requests.exchange_of(session, store, run, stage, step, sample_id, response)).body


@router.get("/stages/{stage}/criteria", summary="Figures of each criterion over the training")
async def list_criteria(run: RunOf, stage: StageName, session: SessionOf, asked: PageOf) -> Page[CriterionBody]:
    return list_page(await rollouts.list_criteria(session, run.name, stage), asked)


@router.get("/stages/{stage}/flips", summary="Groups whose rollouts differ on a criterion")
async def list_flips(
    run: RunOf,
    stage: StageName,
    session: SessionOf,
    asked: PageOf,
    criterion: Annotated[str, Query(min_length=1, max_length=2000)],
) -> Page[FlipBody]:
    """A search of many rollouts ends early, so a page with few groups, or none, may have a next page."""
    return await rollouts.flips(session, run.name, stage, criterion, asked)


@router.get("/samples/{sample_id}/image", summary="Image of a sample", response_class=Response, responses=_PICTURE)
async def show_sample_image(store: StoreOf, run: RunOf, sample_id: SampleId, session: SessionOf) -> Response:
    return _image_response(await samples.sample_image(session, store, run.name, sample_id))


@router.get(
    "/stages/{stage}/images/{digest}", summary="Image of a response", response_class=Response, responses=_PICTURE
)
async def show_response_image(
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    digest: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    media_type: Literal["image/png", "image/jpeg"] = "image/png",
) -> Response:
    return _image_response(await samples.response_image(store, run.name, stage, digest, media_type))


def _image_response(image: Image) -> Response:
    headers = {
        "ETag": f'"{image.digest}"',
        "Cache-Control": "private, max-age=86400",
        "Content-Disposition": "inline",
    }
    return Response(image.content, media_type=image.media_type, headers=headers)
