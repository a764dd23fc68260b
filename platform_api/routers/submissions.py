"""Routes of submitted runs and of Kubeflow's: submit, list, show, stop."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from rubricworks.platform_api.cursors import decode_cursor, encode_cursor
from rubricworks.platform_api.problems import NotFound
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Cursor,
    Limit,
    RequestName,
    Runner,
    SessionOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.routers.runs import RunName
from rubricworks.platform_api.schemas.submissions import (
    RemoteRunBody,
    RemoteRunList,
    StopBody,
    SubmissionBody,
    SubmissionPage,
    SubmissionRequest,
)
from rubricworks.platform_api.services.submission import submissions
from rubricworks.platform_api.services.submission.kubeflow_runs import KubeflowRuns
from rubricworks.platform_api.services.submission.submissions import Submissions

router = APIRouter(prefix="/api/v1", tags=["submissions"], responses=PROBLEMS, route_class=KeyedRoute)


async def get_submissions(request: Request) -> Submissions:
    """The submitted runs of the service."""
    service: Submissions = request.app.state.submissions
    return service


async def get_kubeflow(request: Request) -> KubeflowRuns:
    """The runs of the installation of Kubeflow.

    Raises:
        NotFound: none is configured.
    """
    service: KubeflowRuns | None = request.app.state.kubeflow
    if service is None:
        raise NotFound("this service knows no Kubeflow Pipelines; set RUBRICWORKS_KUBEFLOW")
    return service


SubmissionsOf = Annotated[Submissions, Depends(get_submissions)]
KubeflowOf = Annotated[KubeflowRuns, Depends(get_kubeflow)]


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
async def list_submissions(
    session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> SubmissionPage:
    before = decode_cursor(cursor, int)[0] if cursor is not None else None
    found = await submissions.list_submissions(session, before=before, limit=limit + 1)
    return SubmissionPage(
        items=[SubmissionBody.model_validate(one) for one in found[:limit]],
        next_cursor=encode_cursor(found[limit - 1].number) if len(found) > limit else None,
    )


@router.get("/submissions/{run}", summary="Show a submitted run")
async def show_submission(run: RunName, session: SessionOf, viewer: Viewer) -> SubmissionBody:
    return SubmissionBody.model_validate(await submissions.get_submission(session, run))


@router.post("/runs/{run}/stop", summary="Stop a run; what its stages committed stays")
async def stop_run(run: RunName, service: SubmissionsOf, runner: Runner, session: SessionOf) -> StopBody:
    return StopBody.model_validate({"run": run, "place": await service.stop(runner, run, session)})


@router.get("/kubeflow/runs", summary="List the newest runs on Kubeflow")
async def list_remote_runs(service: KubeflowOf, viewer: Viewer) -> RemoteRunList:
    found = await service.recent()
    return RemoteRunList(items=[RemoteRunBody.model_validate(run) for run in found.runs], problem=found.problem)
