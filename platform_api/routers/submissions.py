"""Routes of submitted runs and of Kubeflow's: submit, list, show, stop."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from rubricworks.platform_api.cursors import before_row, decode_cursor, encode_cursor
from rubricworks.platform_api.problems import BadRequest, NotFound
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Cursor,
    Limit,
    RequestName,
    Runner,
    SessionOf,
    StoreIfAny,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.routers.runs import RunName
from rubricworks.platform_api.schemas.submissions import (
    RemoteRunBody,
    RemoteRunDetailBody,
    RemoteRunPage,
    RemoteState,
    StopBody,
    SubmissionBody,
    SubmissionPage,
    SubmissionRequest,
)
from rubricworks.platform_api.services.submission import submissions
from rubricworks.platform_api.services.submission.kubeflow_runs import (
    KubeflowRuns,
    KubeflowUnavailable,
    RemoteList,
    RemoteQuery,
)
from rubricworks.platform_api.services.submission.remote_run_details import run_details
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
Pipeline = Annotated[str, Query(max_length=128, description="Name of a pipeline", examples=["rubicap"])]
Search = Annotated[str, Query(max_length=200, description="Part of a name; a run's begins with its recipe's")]
RemoteCursor = Annotated[
    str | None,
    Query(max_length=6000, description="`next_cursor` of the page before, with the same filters; it holds Kubeflow's"),
]


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
    before = before_row(cursor)
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


def remote_query(state: RemoteState | None, pipeline: str, search: str, cursor: str | None, limit: int) -> RemoteQuery:
    """The page of Kubeflow's runs that a cursor leads to, under the filters that it was given for."""
    token = ""
    if cursor is not None:
        token, *filters = decode_cursor(cursor, str, str, str, str)
        if not token or filters != [state or "", pipeline, search]:
            raise BadRequest("cursor: one of another filter; leave it out to begin anew")
    return RemoteQuery(state or "", pipeline, search, token, limit)


def next_remote_cursor(query: RemoteQuery, found: RemoteList) -> str | None:
    """Cursor of the page after one: Kubeflow's own token, and the filters that it holds."""
    return encode_cursor(found.token, query.state, query.pipeline, query.search) if found.token else None


@router.get("/kubeflow/runs", summary="List runs on Kubeflow, the newest first")
async def list_remote_runs(
    service: KubeflowOf,
    viewer: Viewer,
    state: RemoteState | None = None,
    pipeline: Pipeline = "",
    search: Search = "",
    cursor: RemoteCursor = None,
    limit: Limit = 50,
) -> RemoteRunPage:
    query = remote_query(state, pipeline, search, cursor, limit)
    found = await service.page(query)
    return RemoteRunPage(
        items=[RemoteRunBody.model_validate(run) for run in found.runs],
        next_cursor=next_remote_cursor(query, found),
        problem=found.problem,
    )


@router.get("/kubeflow/runs/{run}", summary="Show a run on Kubeflow, by its name or Kubeflow's id, with its stages")
async def show_remote_run(
    run: RunName, service: KubeflowOf, session: SessionOf, store: StoreIfAny, viewer: Viewer
) -> RemoteRunDetailBody:
    answer = await service.show(run)
    if answer.run is None:
        raise KubeflowUnavailable(answer.problem)
    details = await run_details(session, store, answer.run)
    return RemoteRunDetailBody.model_validate(
        {
            **answer.run.model_dump(),
            "stages": details.stages,
            "run": details.folder,
            "links": details.links,
            "problem": answer.problem,
        }
    )
