"""The service itself: three routes, and a token in front of what is not a probe.

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
from rubricworks.platform_api.readiness import Dependency, database_answers, storage_answers
from rubricworks.platform_api.settings import ApiSettings, open_database, settings_from_environment


def create_app(settings: ApiSettings | None = None) -> FastAPI:
    """The service with these settings; without any it reads the environment when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.settings = settings or settings_from_environment()
        engine = open_database(app.state.settings)
        app.state.dependencies = []
        if engine is not None:
            app.state.dependencies.append(Dependency("database", partial(database_answers, engine)))
        if app.state.settings.storage:
            # Asking it costs requests that are paid for, so it is asked less often.
            ask = partial(storage_answers, app.state.settings.storage)
            app.state.dependencies.append(Dependency("storage", ask, fresh=60.0))
        yield
        if engine is not None:
            engine.dispose()

    app = FastAPI(title="Rubricworks", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Access)
    app.add_exception_handler(HTTPException, _plain_error)
    app.add_api_route("/healthz", alive, methods=["GET"])
    app.add_api_route("/readyz", ready, methods=["GET"])
    app.add_api_route("/version", version, methods=["GET"])
    return app


async def alive() -> dict[str, str]:
    """The process answers; nothing else is asked."""
    return {"status": "alive"}


async def ready(request: Request) -> JSONResponse:
    """Report whether the database and the storage answer."""
    state = request.app.state
    found = await asyncio.gather(*(dependency.finding() for dependency in state.dependencies))
    may_see_reasons = refusal_of(request.scope, state.settings) is None
    checks = {
        dependency.name: {"status": "ok" if finding.ok else "failed"}
        | ({"detail": finding.detail} if may_see_reasons else {})
        for dependency, finding in zip(state.dependencies, found, strict=True)
    }
    everything = all(finding.ok for finding in found)
    body = {"status": "ready" if everything else "not ready", "checks": checks}
    return JSONResponse(body, status_code=200 if everything else 503, headers={"Cache-Control": "no-store"})


async def version(request: Request) -> dict[str, str]:
    """Report the version and git revision of the service."""
    return {"name": "rubricworks", "version": __version__, "revision": request.app.state.settings.revision}


async def _plain_error(request: Request, error: Exception) -> JSONResponse:
    """Every error has the same form: `{"error": "…"}`."""
    assert isinstance(error, HTTPException)
    message = f"there is no {request.url.path}" if error.status_code == 404 else str(error.detail)
    return JSONResponse({"error": message}, status_code=error.status_code, headers=error.headers)


app = create_app()
"""For `uvicorn rubricworks.platform_api.app:app`; `rubricworks api serve` refuses bad settings before it listens."""
