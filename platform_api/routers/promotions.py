"""Routes of promotions: request, approve, reject, roll back, confirm."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request

from rubricworks.platform_api.cursors import before_row, decode_cursor, encode_cursor, newest_page, page_of
from rubricworks.platform_api.problems import Problem
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Approver,
    Cursor,
    IsResumed,
    Limit,
    Runner,
    SessionOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.promotions import (
    Decision,
    DriftBody,
    DriftPage,
    ModelBody,
    ModelPage,
    PromotionBody,
    PromotionPage,
    PromotionRequest,
    PromotionState,
    Rejection,
    RollbackRequest,
)
from rubricworks.platform_api.services.promotion import promotions
from rubricworks.platform_api.services.promotion.drift import Reconciler
from rubricworks.platform_api.services.promotion.promotions import Promotions

router = APIRouter(prefix="/api/v1", tags=["promotions"], responses=PROBLEMS, route_class=KeyedRoute)
Number = Annotated[int, Path(ge=1, lt=1 << 31)]


async def get_promotions(request: Request) -> Promotions:
    """The promotions of the service.

    Raises:
        Problem: it has no registry.
    """
    service: Promotions | None = request.app.state.promotions
    if service is None:
        raise Problem(503, "No registry", "this service has no model registry; set MLFLOW_TRACKING_URI")
    return service


PromotionsOf = Annotated[Promotions, Depends(get_promotions)]


def registry_token(cursor: str | None) -> str | None:
    """The registry's own token of a page of models, which a cursor holds; None on the first page."""
    return str(decode_cursor(cursor, str)[0]) if cursor is not None else None


def next_models_cursor(token: str | None) -> str | None:
    """Cursor of the page of models that a token of the registry leads to."""
    return encode_cursor(token) if token is not None else None


@router.get("/models", summary="List registered models with their aliases")
async def list_models(service: PromotionsOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50) -> ModelPage:
    found, token = await service.standings(limit, registry_token(cursor))
    items = [ModelBody.model_validate({"model": model, **standing._asdict()}) for model, standing in found.items()]
    return ModelPage(items=items, next_cursor=next_models_cursor(token))


@router.get("/drift", summary="List differences between registry, promotions and consumer, as last looked at")
async def list_drift(request: Request, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50) -> DriftPage:
    reconciler: Reconciler | None = request.app.state.reconciler
    found, next_cursor = page_of(reconciler.found if reconciler else (), cursor, limit)
    return DriftPage(items=[DriftBody.model_validate(one._asdict()) for one in found], next_cursor=next_cursor)


@router.get("/promotions", summary="List promotions, the newest first")
async def list_promotions(
    session: SessionOf,
    viewer: Viewer,
    model: Annotated[str | None, Query(max_length=200)] = None,
    state: PromotionState | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PromotionPage:
    before = before_row(cursor)
    found = await promotions.list_promotions(session, model=model, state=state, before=before, limit=limit + 1)
    page, next_cursor = newest_page(found, limit)
    return PromotionPage(
        items=[PromotionBody.model_validate(one) for one in page],
        next_cursor=next_cursor,
    )


@router.get("/promotions/{number}", summary="Show a promotion")
async def show_promotion(number: Number, session: SessionOf, viewer: Viewer) -> PromotionBody:
    return PromotionBody.model_validate(await promotions.get_promotion(session, number))


@router.post("/promotions", status_code=201, summary="Request that a version becomes the champion")
async def request_promotion(
    asked: PromotionRequest, service: PromotionsOf, runner: Runner, session: SessionOf
) -> PromotionBody:
    return PromotionBody.model_validate(
        await service.request(runner, asked.model, asked.version, asked.reason, session)
    )


@router.post("/promotions/{number}/approve", summary="Approve a request of somebody else, and move the alias")
async def approve_promotion(
    number: Number,
    decision: Decision,
    service: PromotionsOf,
    approver: Approver,
    session: SessionOf,
    resumed: IsResumed,
) -> PromotionBody:
    return PromotionBody.model_validate(
        await service.approve(approver, number, decision.reason, session, resumed=resumed)
    )


@router.post("/promotions/{number}/reject", summary="Reject a request; the champion stays")
async def reject_promotion(
    number: Number, decision: Rejection, service: PromotionsOf, approver: Approver, session: SessionOf
) -> PromotionBody:
    return PromotionBody.model_validate(await service.reject(approver, number, decision.reason, session))


@router.post("/promotions/{number}/confirm", summary="Confirm that the consumer serves the version")
async def confirm_promotion(number: Number, service: PromotionsOf, runner: Runner, session: SessionOf) -> PromotionBody:
    return PromotionBody.model_validate(await service.confirm(runner, number, session))


@router.post("/rollbacks", status_code=201, summary="Make the champion before the champion again, at once")
async def roll_back(
    asked: RollbackRequest, service: PromotionsOf, approver: Approver, session: SessionOf, resumed: IsResumed
) -> PromotionBody:
    promotion = await service.roll_back(
        approver, asked.model, asked.reason, session, champion=asked.champion, resumed=resumed
    )
    return PromotionBody.model_validate(promotion)
