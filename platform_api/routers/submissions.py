"""Routes of submitted runs and of Kubeflow's: submit, list, show, stop."""

from fastapi import APIRouter

from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    KubeflowOf,
    Limit,
    PageOf,
    Pipeline,
    RemoteCursor,
    RequestName,
    RunName,
    Runner,
    Search,
    SessionOf,
    StoreIfAny,
    SubmissionsOf,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.runs import Resumed
from rubricworks.platform_api.schemas.submissions import (
    RemoteRunDetailBody,
    RemoteRunPage,
    RemoteState,
    StopBody,
    SubmissionBody,
    SubmissionRequest,
)
from rubricworks.platform_api.services.submission import submissions
from rubricworks.platform_api.services.submission.kubeflow_runs import RemoteFilter, show_details

router = APIRouter(
    prefix="/api/v1", tags=["submissions"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS]
)


@router.post("/submissions", status_code=201, summary="Check a recipe and start a run of it")
async def submit(
    asked: SubmissionRequest, service: SubmissionsOf, runner: Runner, session: SessionOf, request: RequestName
) -> SubmissionBody:
    submission = await service.submit(
        runner,
        asked.recipe,
        session=session,
        request=request,
        run=asked.run,
        overrides=asked.overrides,
        arm=asked.arm,
        place=asked.place,
    )
    return SubmissionBody.model_validate(submission)


@router.get("/submissions", summary="List submitted runs, the newest first")
async def list_submissions(session: SessionOf, asked: PageOf) -> Page[SubmissionBody]:
    return await submissions.list_submissions(session, asked)


@router.get("/submissions/{run}", summary="Show a submitted run")
async def show_submission(run: RunName, session: SessionOf) -> SubmissionBody:
    return SubmissionBody.model_validate(await submissions.get_submission(session, run))


@router.post("/runs/{run}/stop", summary="Stop a run; what its stages committed stays")
async def stop_run(run: RunName, service: SubmissionsOf, runner: Runner, session: SessionOf) -> StopBody:
    return StopBody.model_validate({"run": run, "place": await service.stop(runner, run, session)})


@router.post("/runs/{run}/resume", summary="Resume a run that was submitted here and ended before its work was done")
async def resume_run(run: RunName, service: SubmissionsOf, runner: Runner, session: SessionOf) -> Resumed:
    await service.resume_by(runner, run, session)
    return Resumed(run=run)


@router.get("/kubeflow/runs", summary="List runs on Kubeflow, the newest first")
async def list_remote_runs(
    service: KubeflowOf,
    state: RemoteState | None = None,
    pipeline: Pipeline = "",
    search: Search = "",
    cursor: RemoteCursor = None,
    limit: Limit = 50,
) -> RemoteRunPage:
    return await service.list_page(RemoteFilter(state or "", pipeline, search), PageRequest(cursor, limit))


@router.get("/kubeflow/runs/{run}", summary="Show a run on Kubeflow, by its name or Kubeflow's id, with its stages")
async def show_remote_run(
    run: RunName, service: KubeflowOf, session: SessionOf, store: StoreIfAny
) -> RemoteRunDetailBody:
    return await show_details(session, store, await service.show(run))
