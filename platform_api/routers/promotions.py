"""Routes of promotions: request, approve, reject, roll back, confirm."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from rubricworks.platform_api.pagination import list_page
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    Approver,
    IsResumed,
    Number,
    PageOf,
    PromotionsOf,
    Runner,
    SessionOf,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.promotions import (
    Decision,
    DriftBody,
    ModelBody,
    PromotionBody,
    PromotionRequest,
    PromotionState,
    Rejection,
    RollbackRequest,
)
from rubricworks.platform_api.services.promotion import promotions
from rubricworks.platform_api.services.promotion.drift import Reconciler

router = APIRouter(
    prefix="/api/v1", tags=["promotions"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS]
)


@router.get("/models", summary="List registered models with their aliases")
async def list_models(service: PromotionsOf, asked: PageOf) -> Page[ModelBody]:
    page = await service.standings(asked)
    return Page(items=[ModelBody.model_validate(standing) for standing in page.items], next_cursor=page.next_cursor)


@router.get("/drift", summary="List differences between registry, promotions and consumer, as last looked at")
async def list_drift(request: Request, asked: PageOf) -> Page[DriftBody]:
    reconciler: Reconciler | None = request.app.state.reconciler
    return list_page(reconciler.drift if reconciler else (), asked)


@router.get("/promotions", summary="List promotions, the newest first")
async def list_promotions(
    session: SessionOf,
    asked: PageOf,
    model: Annotated[str | None, Query(max_length=200)] = None,
    state: PromotionState | None = None,
) -> Page[PromotionBody]:
    return await promotions.list_promotions(session, asked, model=model, state=state)


@router.get("/promotions/{number}", summary="Show a promotion")
async def show_promotion(number: Number, session: SessionOf) -> PromotionBody:
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
