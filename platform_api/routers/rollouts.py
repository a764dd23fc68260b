"""Routes of rollouts: groups by step, their verdicts, criteria, images."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from rubricworks.platform_api.cursors import decode_cursor, encode_cursor, page_of
from rubricworks.platform_api.routers.dependencies import PROBLEMS, Cursor, Limit, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.routers.tagged_route import TaggedRoute
from rubricworks.platform_api.schemas.rollouts import (
    CriterionBody,
    CriterionPage,
    ExchangeBody,
    FlipBody,
    FlipPage,
    GroupBody,
    GroupDetail,
    GroupPage,
)
from rubricworks.platform_api.services import images, rollouts, runs
from rubricworks.platform_api.services.images import Image
from rubricworks.platform_api.services.judges import judge_requests

router = APIRouter(prefix="/api/v1/runs/{run}", tags=["rollouts"], responses=PROBLEMS, route_class=TaggedRoute)
Step = Annotated[int, Path(ge=0, lt=1 << 31)]
SampleId = Annotated[str, Path(min_length=1, max_length=200)]
ResponseDigest = Annotated[
    str, Query(pattern=r"^[0-9a-f]{16}$", description="First 16 hexadecimal digits of the SHA-256 of `response`")
]
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {}}, "description": "The image"},
}


@router.get("/stages/{stage}/groups", summary="List groups of rollouts in the order of their steps")
async def list_groups(
    run: RunName,
    stage: StageName,
    session: SessionOf,
    viewer: Viewer,
    step: Annotated[int | None, Query(ge=0, lt=1 << 31)] = None,
    sample_id: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> GroupPage:
    await runs.get_run(session, run)
    after = decode_cursor(cursor, int, str) if cursor is not None else None
    found = await rollouts.list_groups(
        session,
        run,
        stage,
        step=step,
        sample_id=sample_id,
        after=after,
        limit=limit + 1,
    )
    last = found[limit - 1] if len(found) > limit else None
    return GroupPage(
        items=[GroupBody.model_validate(group) for group in found[:limit]],
        next_cursor=encode_cursor(last.step, last.sample_id) if last else None,
    )


@router.get("/stages/{stage}/groups/{step}/{sample_id}", summary="Show a group with its verdicts")
async def show_group(
    run: RunName, stage: StageName, step: Step, sample_id: SampleId, session: SessionOf, store: StoreOf, viewer: Viewer
) -> GroupDetail:
    members = await rollouts.get_group(session, store, run, stage, step, sample_id)
    return GroupDetail.model_validate({"step": step, "sample_id": sample_id, "rollouts": members})


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
    viewer: Viewer,
    response: ResponseDigest,
) -> ExchangeBody:
    return ExchangeBody.model_validate(
        await judge_requests.exchange_of(session, store, run, stage, step, sample_id, response)
    )


@router.get("/stages/{stage}/criteria", summary="Figures of each criterion over the training")
async def list_criteria(
    run: RunName, stage: StageName, session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> CriterionPage:
    await runs.get_run(session, run)
    found, next_cursor = page_of(await rollouts.list_criteria(session, run, stage), cursor, limit)
    return CriterionPage(items=[CriterionBody.model_validate(one) for one in found], next_cursor=next_cursor)


@router.get("/stages/{stage}/flips", summary="Groups whose rollouts differ on a criterion")
async def list_flips(
    run: RunName,
    stage: StageName,
    session: SessionOf,
    viewer: Viewer,
    criterion: Annotated[str, Query(min_length=1, max_length=2000)],
    cursor: Cursor = None,
    limit: Limit = 50,
) -> FlipPage:
    """Where many rollouts have no such group, a search ends early: a page with few groups or none may have a next."""
    await runs.get_run(session, run)
    after: Any = decode_cursor(cursor, int, str) if cursor is not None else None
    found = await rollouts.flips(session, run, stage, criterion, after=after, limit=limit)
    return FlipPage(
        items=[FlipBody(step=step, sample_id=sample_id, credit=credit) for step, sample_id, credit in found.groups],
        next_cursor=encode_cursor(*found.last) if found.last else None,
    )


@router.get("/samples/{sample_id}/image", summary="Image of a sample", response_class=Response, responses=_PICTURE)
async def show_sample_image(
    run: RunName,
    sample_id: SampleId,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
) -> Response:
    await runs.get_run(session, run)
    return _image_response(await images.sample_image(session, store, run, sample_id))


@router.get(
    "/stages/{stage}/images/{digest}", summary="Image of a response", response_class=Response, responses=_PICTURE
)
async def show_response_image(
    run: RunName,
    stage: StageName,
    digest: Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")],
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    media_type: Literal["image/png", "image/jpeg"] = "image/png",
) -> Response:
    await runs.get_run(session, run)
    return _image_response(await images.response_image(store, run, stage, digest, media_type))


def _image_response(image: Image) -> Response:
    headers = {
        "ETag": f'"{image.digest}"',
        "Cache-Control": "private, max-age=86400",
        "Content-Disposition": "inline",
    }
    return Response(image.content, media_type=image.media_type, headers=headers)
