"""Probes of a kubelet, and the version."""

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import SQLAlchemyError

from rubricworks import __version__
from rubricworks.platform_api.access import principal_of
from rubricworks.platform_api.routers.dependencies import PROBLEMS, SessionOf, Viewer
from rubricworks.platform_api.schemas.bodies import JsonObject
from rubricworks.platform_api.schemas.promotions import Alive, Readiness, Version
from rubricworks.platform_api.services.metrics import MEDIA_TYPE, metrics_text

router = APIRouter(tags=["service"])
_TEXT: dict[int | str, JsonObject] = {200: {"content": {"text/plain": {}}, "description": "Figures"}}


@router.get("/healthz", summary="Report that the process answers, without checking its dependencies")
async def alive() -> Alive:
    return Alive()


@router.get(
    "/readyz",
    response_model=Readiness,
    summary="Report the state of the database and the storage",
    responses={503: {"model": Readiness, "description": "A dependency does not answer"}},
)
async def ready(request: Request) -> JSONResponse:
    state = request.app.state
    findings = await asyncio.gather(*(dependency.finding() for dependency in state.dependencies))
    all_ok = all(finding.ok for finding in findings)
    try:
        may_see_reasons = await principal_of(request.scope) is not None
    except SQLAlchemyError:  # a database that is away cannot say whose a token is
        may_see_reasons = False
    checks = {
        dependency.name: {"status": "ok" if finding.ok else "failed"}
        | ({"detail": finding.detail} if may_see_reasons else {})
        for dependency, finding in zip(state.dependencies, findings, strict=True)
    }
    body: JsonObject = {"status": "ready" if all_ok else "not ready", "checks": checks}
    reconciler = state.reconciler
    if may_see_reasons and reconciler is not None:  # drift is told, and takes no pod away
        body["drift"] = [difference.model_dump() for difference in reconciler.drift]
    return JSONResponse(body, status_code=200 if all_ok else 503, headers={"Cache-Control": "no-store"})


@router.get("/version", summary="Report the version and git revision of the service", responses=PROBLEMS)
async def version(request: Request, viewer: Viewer) -> Version:
    return Version(version=__version__, revision=request.app.state.settings.revision)


@router.get(
    "/metrics", summary="Report figures in Prometheus' text format", responses=PROBLEMS | _TEXT, response_class=Response
)
async def metrics(request: Request, session: SessionOf, viewer: Viewer) -> Response:
    state = request.app.state
    text = await metrics_text(
        session,
        state.settings.project,
        state.reconciler.drift if state.reconciler else (),
        state.request_seconds,
        is_behind=state.storage is not None and (state.run_index is None or state.run_index.is_behind),
    )
    return Response(text, media_type=MEDIA_TYPE)
