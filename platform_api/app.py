"""FastAPI application of an installation: probes, the API under /api/v1, and the pages.

    GET /healthz   the process answers                               open, for kubelets
    GET /readyz    database and storage answer (200), or not (503)   open; reasons only for callers with a token
    GET /version   version and git revision
    GET /metrics   figures for Prometheus
    /api/v1/…      runs, rollouts, tokens, the audit log; described by /openapi.json
    /              pages

    rubricworks server

Routers hold no rules, services no HTTP; pages draw what the API sends. Every route names the right that it needs
(`access.requires`), and one that changes something a right beyond reading; the application does not start with one that
names none.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse
from fastapi.routing import APIRoute
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import State

import rubricworks.reports
from rubricworks import __version__
from rubricworks.errors import UserError
from rubricworks.platform_api.access import LOGIN_CALLBACK, Access, is_open
from rubricworks.platform_api.db.engine import Database, open_probe
from rubricworks.platform_api.db.migrate import NewerDatabase, migrate
from rubricworks.platform_api.limits import BodyLimit, HeadRequests, SecurityHeaders
from rubricworks.platform_api.openapi import describe_with_examples
from rubricworks.platform_api.problems import add_problem_handlers
from rubricworks.platform_api.readiness import Dependency, check_database, check_storage_access, refuse_other_project
from rubricworks.platform_api.routers import (
    access,
    evaluations,
    judgements,
    probes,
    promotions,
    rollouts,
    rubrics,
    runs,
    submissions,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.routers.pages import access as access_pages
from rubricworks.platform_api.routers.pages import evaluations as evaluation_pages
from rubricworks.platform_api.routers.pages import judgements as judgement_pages
from rubricworks.platform_api.routers.pages import promotions as promotion_pages
from rubricworks.platform_api.routers.pages import rollouts as rollout_pages
from rubricworks.platform_api.routers.pages import rubrics as rubric_pages
from rubricworks.platform_api.routers.pages import runs as run_pages
from rubricworks.platform_api.routers.pages import submissions as submission_pages
from rubricworks.platform_api.routers.pages.drawing import problem_page
from rubricworks.platform_api.services.access.identity_provider import IdentityProvider
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.access.token_review import TokenReviews
from rubricworks.platform_api.services.metrics import RequestTimes, request_histogram
from rubricworks.platform_api.services.promotion.consumer import ConsumerAddress, Webhooks
from rubricworks.platform_api.services.promotion.drift import Reconciler
from rubricworks.platform_api.services.promotion.mlflow_registry import MlflowRegistry
from rubricworks.platform_api.services.promotion.promotions import Promotions
from rubricworks.platform_api.services.run_index import RunIndex
from rubricworks.platform_api.services.run_storage import RunStorage
from rubricworks.platform_api.services.submission.kubeflow_runs import KubeflowRuns
from rubricworks.platform_api.services.submission.submission_policy import load_policy
from rubricworks.platform_api.services.submission.submissions import Submissions
from rubricworks.platform_api.settings import (
    ApiSettings,
    has_own_file,
    make_database_folder,
    settings_from_environment,
)
from rubricworks.platform_api.streams import Streams
from rubricworks.storage import is_remote, local_path

ROUTERS = (
    probes.router,
    runs.router,
    rollouts.router,
    rubrics.router,
    submissions.router,
    evaluations.hacking_router,
    evaluations.router,
    runs.letters_router,
    judgements.router,
    promotions.router,
    access.router,
    run_pages.router,
    rollout_pages.router,
    access_pages.router,
    rubric_pages.router,
    submission_pages.router,
    evaluation_pages.router,
    run_pages.forms_router,
    judgement_pages.router,
    promotion_pages.router,
)
_STATIC = Path(__file__).parent / "pages" / "static"
_REPORT_TEMPLATES = Path(rubricworks.reports.__file__).parent / "templates"
_REPORT_STYLES = ("report.css", "tables.css", "leaderboard.css", "audit.css")
_THREADS = 16
"""Threads for storage: as many as its client keeps connections."""
_AGAIN_AFTER = 5.0
"""Seconds between attempts to open a database file that could not be opened."""
_log = logging.getLogger(__name__)


def create_app(settings: ApiSettings | None = None) -> FastAPI:
    """Create the application; without settings, it reads the environment at start-up."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            await _start(app, settings or settings_from_environment(), stack)
            yield

    app = FastAPI(
        title="Rubricworks",
        version=__version__,
        description="Runs, rollouts, rubrics, scores and promotions of an installation.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.openapi = describe_with_examples(app)  # type: ignore[method-assign]  # as FastAPI's own pages tell
    app.state.request_seconds = request_histogram()
    app.state.routers, app.state.problem_page = ROUTERS, problem_page
    add_problem_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    for name in _REPORT_STYLES:
        app.add_route(f"/static/{name}", _report_style)
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")
    # The last one added is asked first.
    app.add_middleware(Access)
    app.add_middleware(BodyLimit)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(HeadRequests)
    app.add_middleware(RequestTimes)
    _require_rights()
    _require_keys()
    return app


async def _start(app: FastAPI, settings: ApiSettings, stack: contextlib.AsyncExitStack) -> None:
    # By default there are four more than cores, which wait for the storage most of the time.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS, "blocking"))
    state = app.state
    state.settings, state.dependencies, state.is_stopping = settings, [], False
    state.streams = Streams()
    project = settings.project
    state.provider = state.token_reviews = None
    if project is not None and project.login is not None:
        own_url = (settings.public_url or settings.own_url or "").rstrip("/")
        state.provider = IdentityProvider(project.login, own_url + LOGIN_CALLBACK)
    if project is not None and project.kubernetes is not None:
        state.token_reviews = TokenReviews(project, project.kubernetes)
    state.database = Database(settings.database_url)
    stack.push_async_callback(state.database.close)
    # Postgres is migrated by a Job: `rubricworks server migrate`
    await refuse_other_project(settings)
    if state.database.is_sqlite and (problem := await _prepare_sqlite(settings, state.database)):
        stack.push_async_callback(_end, asyncio.create_task(_prepare_sqlite_later(settings, state.database, problem)))
    if settings.database is not None or has_own_file(settings):
        probe = open_probe(state.database)
        stack.callback(probe.dispose)
        state.dependencies.append(Dependency("database", partial(check_database, probe, settings.project_name)))
    state.storage = RunStorage(settings.storage) if settings.storage else None
    if settings.storage:
        # Requests to a bucket cost money, so it is checked less often.
        check = partial(check_storage_access, settings.storage)
        state.dependencies.append(Dependency("storage", check, fresh=60.0))
        await state.storage.get()
    state.promotions = _promotions(settings, state.database)
    consumer = ConsumerAddress(settings.webhook_url, settings.webhook_networks) if settings.webhook_url else None
    if state.promotions is not None and consumer and settings.webhook_secret:
        webhooks = Webhooks(state.database, consumer, settings.webhook_secret.get_secret_value())
        stack.push_async_callback(_end, asyncio.create_task(webhooks.follow(settings.index_seconds)))
    state.reconciler = None
    if state.promotions is not None:
        state.reconciler = Reconciler(state.database, state.promotions, consumer if settings.webhook_secret else None)
        following = asyncio.create_task(state.reconciler.follow(settings.reconcile_seconds))
        stack.push_async_callback(_end, following)
    policy = load_policy(settings.submissions)
    state.kubeflow = KubeflowRuns(policy.cluster) if policy.cluster or settings.kubeflow else None
    folder = _runs_folder(settings) if settings.local_runs else None
    state.submissions = Submissions(
        state.database, policy, folder, state.kubeflow, own_url=settings.own_url, project=project
    )
    stack.push_async_callback(_end, asyncio.create_task(state.submissions.follow()))
    state.run_index = None
    if state.storage is not None:
        following = asyncio.create_task(_follow_runs(state, settings.index_seconds))
        stack.push_async_callback(_end, following)


async def _prepare_sqlite(settings: ApiSettings, database: Database, told: str = "") -> str:
    """Migrate a database that is a file; log and return the reason if that fails.

    Args: told: reason that is logged already; /readyz reports it too.
    """
    try:
        make_database_folder(settings)
        await migrate(database, settings.project_name)
    except NewerDatabase as error:  # migrations add before they remove, so this version still finds its tables
        _log.warning("%s; until then this version works on it", error)
    except UserError as error:
        if str(error) != told:
            _log.error("%s", error)
        return str(error)
    return ""


async def _prepare_sqlite_later(settings: ApiSettings, database: Database, problem: str) -> None:
    """Migrate a database as soon as its folder exists, if it was missing at the start."""
    while problem:
        await asyncio.sleep(_AGAIN_AFTER)
        problem = await _prepare_sqlite(settings, database, problem)
    _log.info("the database is ready now")


def _promotions(settings: ApiSettings, database: Database) -> Promotions | None:
    runs = _runs_folder(settings)
    if runs is None and not os.environ.get("MLFLOW_TRACKING_URI"):
        return None
    registry = MlflowRegistry("", runs or Path())
    has_consumer = bool(settings.webhook_url and settings.webhook_secret)
    return Promotions(database, registry, has_consumer=has_consumer, self_approval=settings.self_approval)


def _runs_folder(settings: ApiSettings) -> Path | None:
    """Folder of all runs; None for a bucket."""
    is_folder = settings.storage is not None and not is_remote(settings.storage)
    return local_path(settings.storage) if settings.storage and is_folder else None


async def _follow_runs(state: State, seconds: float) -> None:
    state.run_index = RunIndex(state.database, await state.storage.wait(), state.streams.wake)
    await state.run_index.follow(seconds)


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _report_style(request: Request) -> FileResponse:
    """A style sheet that pages share with reports."""
    return FileResponse(_REPORT_TEMPLATES / request.url.path.rpartition("/")[2], media_type="text/css")


def guarded_routes() -> list[APIRoute]:
    """All routes that need a principal."""
    routes = [route for router in ROUTERS for route in router.routes]
    return [route for route in routes if isinstance(route, APIRoute) and not is_open(route.path)]


def _require_rights() -> None:
    for route in guarded_routes():
        rights = {getattr(dependency.call, "right", None) for dependency in route.dependant.dependencies} - {None}
        if not rights or (rights == {Right.VIEW} and route.methods != {"GET"}):
            raise RuntimeError(f"{route.path} names no right; give it one of routers.dependencies' principals")


def _require_keys() -> None:
    for route in (route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)):
        if "POST" in (route.methods or ()) and not isinstance(route, KeyedRoute):
            raise RuntimeError(f"POST {route.path} takes no idempotency key; give its router the class KeyedRoute")


app = create_app()
"""Application for `uvicorn rubricworks.platform_api.app:app`; `rubricworks server` validates settings first."""
