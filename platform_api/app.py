"""FastAPI application: three routes; all but the probes need the token.

    GET /healthz   the process answers                               open, for kubelets
    GET /readyz    database and storage answer (200), or not (503)   open; reasons only for callers with the token
    GET /version   version and git revision                          with the token

    RUBRICWORKS_DATABASE_URL=sqlite:///platform.db rubricworks api serve

Runs, schedules and rubrics have no routes here yet.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rubricworks import __version__
from rubricworks.platform_api.access import Access, refusal_of
from rubricworks.platform_api.readiness import Dependency, check_database, check_storage_access
from rubricworks.platform_api.settings import ApiSettings, open_database, settings_from_environment


def create_app(settings: ApiSettings | None = None) -> FastAPI:
    """Create the application; without settings, it reads the environment at start-up."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.settings = settings or settings_from_environment()
        engine = open_database(app.state.settings)
        app.state.dependencies = []
        if engine is not None:
            app.state.dependencies.append(Dependency("database", partial(check_database, engine)))
        if app.state.settings.storage:
            # Requests to a bucket cost money, so it is checked less often.
            check = partial(check_storage_access, app.state.settings.storage)
            app.state.dependencies.append(Dependency("storage", check, fresh=60.0))
        yield
        if engine is not None:
            engine.dispose()

    app = FastAPI(title="Rubricworks", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Access)
    app.add_exception_handler(HTTPException, _error_response)
    app.add_api_route("/healthz", alive, methods=["GET"])
    app.add_api_route("/readyz", ready, methods=["GET"])
    app.add_api_route("/version", version, methods=["GET"])
    return app


async def alive() -> dict[str, str]:
    """Report that the process answers, without checking its dependencies."""
    return {"status": "alive"}


async def ready(request: Request) -> JSONResponse:
    """Report the state of the database and the storage."""
    state = request.app.state
    findings = await asyncio.gather(*(dependency.finding() for dependency in state.dependencies))
    may_see_reasons = refusal_of(request.scope, state.settings) is None
    checks = {
        dependency.name: {"status": "ok" if finding.ok else "failed"}
        | ({"detail": finding.detail} if may_see_reasons else {})
        for dependency, finding in zip(state.dependencies, findings, strict=True)
    }
    all_ok = all(finding.ok for finding in findings)
    body = {"status": "ready" if all_ok else "not ready", "checks": checks}
    return JSONResponse(body, status_code=200 if all_ok else 503, headers={"Cache-Control": "no-store"})


async def version(request: Request) -> dict[str, str]:
    """Report the version and git revision of the service."""
    return {"name": "rubricworks", "version": __version__, "revision": request.app.state.settings.revision}


async def _error_response(request: Request, error: Exception) -> JSONResponse:
    """Convert an HTTP error to the common form `{"error": "…"}`."""
    assert isinstance(error, HTTPException)
    message = f"there is no {request.url.path}" if error.status_code == 404 else str(error.detail)
    return JSONResponse({"error": message}, status_code=error.status_code, headers=error.headers)


app = create_app()
"""Application for `uvicorn rubricworks.platform_api.app:app`; `rubricworks api serve` validates settings first."""
