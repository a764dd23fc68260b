"""Page of promotions, and its forms."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.errors import UserError
from rubricworks.platform_api.cursors import before_row, newest_page
from rubricworks.platform_api.problems import BadRequest, Problem
from rubricworks.platform_api.routers.dependencies import (
    Approver,
    Cursor,
    IsResumed,
    Runner,
    SessionOf,
    StoreIfAny,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.pages.forms import form_fields
from rubricworks.platform_api.routers.promotions import Number, PromotionsOf, next_models_cursor, registry_token
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.promotion import promotions
from rubricworks.platform_api.services.promotion.drift import Reconciler
from rubricworks.platform_api.services.simulations import simulated_runs
from rubricworks.redaction import redact
from rubricworks.tracking.gate import to_findings

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_PAGE = "/promotions"


@router.get("/promotions")
async def promotions_page(
    request: Request,
    session: SessionOf,
    service: PromotionsOf,
    store: StoreIfAny,
    viewer: Viewer,
    cursor: Cursor = None,
    models: Cursor = None,
) -> Response:
    before, token = before_row(cursor), registry_token(models)
    reconciler: Reconciler | None = request.app.state.reconciler
    try:
        (standings, next_token), problem = await service.standings(PAGE, token), ""
    except UserError as error:
        (standings, next_token), problem = ({}, None), redact(str(error))
    found = await promotions.list_promotions(session, model=None, state=None, before=before, limit=PAGE + 1)
    page, next_cursor = newest_page(found, PAGE)
    requested = [one for one in page if one.state == "requested"]
    shown = [one for found in standings.values() for one in (found.challenger, found.promoted, found.newest)]
    known_runs = await simulated_runs(session, store, [one.run for one in shown if one])
    return draw_page(
        request,
        viewer,
        "promotions.html",
        standings=standings,
        known_runs=known_runs,
        simulated=any(known_runs.values()),
        open_requests=await promotions.open_requests(session, standings),
        problem=problem,
        drift=reconciler.found if reconciler else (),
        promotions=page,
        requesters={one.id: await promotions.requesters_of(session, one) for one in requested},
        next_cursor=next_cursor,
        next_models=next_models_cursor(next_token),
        cursor=cursor,
        models=models,
        may_request=viewer.may(Right.RUN),
        may_decide=viewer.may(Right.APPROVE),
        waives_second_person=service.waives_second_person,
        to_findings=to_findings,
    )


@router.post("/promotions/request")
async def request_by_form(request: Request, service: PromotionsOf, runner: Runner, session: SessionOf) -> Response:
    fields = await _fields(request)
    await service.request(runner, fields["model"], _number("version", fields["version"]), fields["reason"], session)
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
    champion = _number("champion", fields["champion"])
    await service.roll_back(approver, fields["model"], fields["reason"], session, champion=champion, resumed=resumed)
    return RedirectResponse(_PAGE, status_code=303)


async def _fields(request: Request) -> dict[str, Any]:
    fields = await form_fields(request)
    return {name: fields.get(name, "")[:2000] for name in ("model", "version", "champion", "reason")}


def _number(field: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"{field}: {text!r} is no number")
    return int(text)
