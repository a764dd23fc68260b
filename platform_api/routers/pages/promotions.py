"""Page of promotions, and its forms."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.errors import UserError
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.problems import Problem
from rubricworks.platform_api.routers.dependencies import (
    PAGE,
    Approver,
    Cursor,
    DrawnPageOf,
    IsResumed,
    Number,
    PromotionsOf,
    Runner,
    SessionOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute, form_fields, whole_number
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.services import runs
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.promotion import promotions
from rubricworks.platform_api.services.promotion.drift import Reconciler
from rubricworks.platform_api.services.promotion.promotions import Standing
from rubricworks.redaction import redact

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_PAGE = "/promotions"


@router.get("/promotions")
async def promotions_page(
    request: Request,
    session: SessionOf,
    service: PromotionsOf,
    viewer: Viewer,
    asked: DrawnPageOf,
    models: Cursor = None,
) -> Response:
    reconciler: Reconciler | None = request.app.state.reconciler
    problem, standings = "", Page[Standing](items=[], next_cursor=None)
    try:
        standings = await service.standings(PageRequest(models, PAGE))
    except UserError as error:
        problem = redact(str(error))
    page = await promotions.list_promotions(session, asked)
    open_requests = [promotion.id for promotion in page.items if promotion.state == "requested"]
    shown = [
        candidate.run
        for standing in standings.items
        for candidate in (standing.challenger, standing.promoted, standing.newest)
        if candidate
    ]
    known_runs = await runs.simulated_runs(session, shown)
    return draw_page(
        request,
        viewer,
        "promotions.html",
        standings=standings,
        known_runs=known_runs,
        simulated=any(known_runs.values()),
        open_requests=await promotions.open_requests(session, [standing.model for standing in standings.items]),
        problem=problem,
        drift=reconciler.drift if reconciler else (),
        promotions=page,
        requesters={
            number: await promotions.requesters_of(session, await promotions.get_promotion(session, number))
            for number in open_requests
        },
        cursor=asked.cursor,
        models=models,
        may_request=viewer.may(Right.RUN),
        may_decide=viewer.may(Right.APPROVE),
        waives_second_person=service.waives_second_person,
    )


@router.post("/promotions/request")
async def request_by_form(request: Request, service: PromotionsOf, runner: Runner, session: SessionOf) -> Response:
    fields = await _fields(request)
    await service.request(runner, fields["model"], whole_number(fields, "version"), fields["reason"], session)
    return RedirectResponse(_PAGE, status_code=303)


@router.post("/promotions/{number}/approve")
async def approve_by_form(
    number: Number,
    request: Request,
    service: PromotionsOf,
    approver: Approver,
    session: SessionOf,
    resumed: IsResumed,
) -> Response:
    await service.approve(approver, number, (await _fields(request))["reason"], session, resumed=resumed)
    return RedirectResponse(_PAGE, status_code=303)


@router.post("/promotions/{number}/reject")
async def reject_by_form(
    number: Number, request: Request, service: PromotionsOf, approver: Approver, session: SessionOf
) -> Response:
    reason = (await _fields(request))["reason"].strip()
    if not reason:
        problem = "a rejection needs a reason, which the requester reads"
        fields_missing = [{"field": "reason", "problem": problem}]
        raise Problem(422, "Invalid request", f"reason: {problem}", fields=fields_missing)
    await service.reject(approver, number, reason, session)
    return RedirectResponse(_PAGE, status_code=303)


@router.post("/promotions/roll-back")
async def roll_back_by_form(
    request: Request, service: PromotionsOf, approver: Approver, session: SessionOf, resumed: IsResumed
) -> Response:
    fields = await _fields(request)
    champion = whole_number(fields, "champion")
    await service.roll_back(approver, fields["model"], fields["reason"], session, champion=champion, resumed=resumed)
    return RedirectResponse(_PAGE, status_code=303)


async def _fields(request: Request) -> dict[str, str]:
    fields = await form_fields(request)
    return {name: fields.get(name, "")[:2000] for name in ("model", "version", "champion", "reason")}
