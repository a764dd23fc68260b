"""Parameters that routes of the API and of pages share: callers, runs and their parts, a page of a list, a session."""

from collections.abc import AsyncIterator
from typing import Annotated, Literal, NamedTuple

from fastapi import Depends, Header, Path, Query, Request
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.access import requires
from rubricworks.platform_api.db.engine import Database
from rubricworks.platform_api.db.tables import Run, RunTable
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.problems import NotFound, Problem
from rubricworks.platform_api.schemas.bodies import JsonObject
from rubricworks.platform_api.schemas.runs import RunColumn, RunState
from rubricworks.platform_api.services import runs
from rubricworks.platform_api.services.access.principals import Principal, Right
from rubricworks.platform_api.services.promotion.promotions import Promotions
from rubricworks.platform_api.services.rollout_search import Met, RolloutFilter, Sort
from rubricworks.platform_api.services.run_list import RunFilter
from rubricworks.platform_api.services.run_storage import RunStorage
from rubricworks.platform_api.services.run_tabs import TabLink, run_tabs
from rubricworks.platform_api.services.submission.kubeflow_runs import KubeflowRuns
from rubricworks.platform_api.services.submission.submissions import Submissions
from rubricworks.runs.store import RunStore

VIEWERS = Depends(requires(Right.VIEW))
"""For a router whose routes all need it."""
Viewer = Annotated[Principal, VIEWERS]
Runner = Annotated[Principal, Depends(requires(Right.RUN))]
Approver = Annotated[Principal, Depends(requires(Right.APPROVE))]
Admin = Annotated[Principal, Depends(requires(Right.ADMINISTER))]

PAGE = 30
"""Rows of a list on a page of HTML."""
RunName = Annotated[str, Path(min_length=1, max_length=200, examples=["quickstart-20261123-020900"])]
StageName = Annotated[str, Path(min_length=1, max_length=100, pattern=r"^[\w-]+$", examples=["train_policy"])]
Step = Annotated[int, Path(ge=0, lt=1 << 31)]
SampleId = Annotated[str, Path(min_length=1, max_length=200)]
Number = Annotated[int, Path(ge=1, lt=1 << 31)]
ResponseDigest = Annotated[
    str, Query(pattern=r"^[0-9a-f]{16}$", description="First 16 hexadecimal digits of the SHA-256 of `response`")
]
Limit = Annotated[int, Query(ge=1, le=200, description="Items of a page at most")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before")]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A new key for each change; again for a retry",
    ),
]


def _problem_schema(status: int, title: str) -> JsonObject:
    """Schema of a problem (RFC 9457)."""
    properties: JsonObject = {
        "type": {"const": "about:blank"},
        "title": {"type": "string", "examples": [title]},
        "status": {"const": status},
        "detail": {"type": "string", "description": "Reason, and what to do", "examples": [_DETAILS[status]]},
    }
    required = list(properties)
    if status == 422:
        fields = [{"field": "body.days", "problem": "Input should be less than or equal to 366"}]
        properties["fields"] = {"type": "array", "items": {"type": "object"}, "examples": [fields]}
    return {"type": "object", "properties": properties, "required": required}


_DETAILS = {
    400: "the body is no JSON",
    401: "a token is needed: send `Authorization: Bearer <RUBRICWORKS_API_TOKEN>`",
    403: "this needs the right to approve, which a viewer has not",
    404: "there is no run 'nightly-8'",
    409: "promotion 7 is applied already",
    413: "a body has at most 2097152 bytes",
    422: "body.days: Input should be less than or equal to 366",
    429: "ci made more than 1200 requests in a minute; go on in 20 s",
    503: "the database does not answer; try again in a moment",
}
PROBLEMS: dict[int | str, dict[str, object]] = {
    status: {
        "description": description,
        "content": {"application/problem+json": {"schema": _problem_schema(status, description)}},
    }
    for status, description in {
        400: "Unreadable body",
        401: "No principal",
        403: "No right",
        404: "Not there",
        409: "Conflict",
        413: "Body too large",
        422: "Invalid request",
        429: "Too many requests, or wrong tokens",
        503: "A dependency is away",
    }.items()
}
"""Error answers of every route."""


async def get_database(request: Request) -> Database:
    """The database of the service."""
    database: Database = request.app.state.database
    return database


async def get_session(
    request: Request, database: Annotated[Database, Depends(get_database)]
) -> AsyncIterator[AsyncSession]:
    """The request's session, which commits before the answer is sent."""
    async with database.session() as session:
        request.state.session = session
        yield session


async def get_request_name(request: Request) -> str:
    """Name of a POST with its key, by which its work is known again after a kill; empty if the key is refused."""
    return str(getattr(request.state, "request_name", ""))


async def is_resumed(request: Request) -> bool:
    """Return True for a POST that a killed service began under the same key."""
    return bool(getattr(request.state, "is_resumed", False))


async def get_store(request: Request) -> RunStore:
    """The storage of the runs.

    Raises:
        Problem: none is configured, or it does not answer.
    """
    storage: RunStorage | None = request.app.state.storage
    if storage is None:
        raise Problem(503, "No runs", "this service has no storage of runs; set RUBRICWORKS_STORAGE")
    store = await storage.get()
    if store is None:
        raise Problem(503, "No runs", "the storage of runs does not answer; /readyz says why, ask again in a moment")
    return store


async def get_store_if_any(request: Request) -> RunStore | None:
    """The storage of the runs; None if none is configured, or it does not answer."""
    storage: RunStorage | None = request.app.state.storage
    return await storage.get() if storage is not None else None


DatabaseOf = Annotated[Database, Depends(get_database)]
SessionOf = Annotated[AsyncSession, Depends(get_session, scope="function")]
RequestName = Annotated[str, Depends(get_request_name)]
IsResumed = Annotated[bool, Depends(is_resumed)]
StoreOf = Annotated[RunStore, Depends(get_store)]
StoreIfAny = Annotated[RunStore | None, Depends(get_store_if_any)]


async def get_page(cursor: Cursor = None, limit: Limit = 50) -> PageRequest:
    """Page of a list that a program asks for."""
    return PageRequest(cursor, limit)


async def get_drawn_page(cursor: Cursor = None) -> PageRequest:
    """Page of a list that is drawn as HTML."""
    return PageRequest(cursor, PAGE)


async def get_run(run: RunName, session: SessionOf) -> Run:
    """The run of a path."""
    return await runs.get_run(session, run)


async def get_run_tabs(run: Annotated[Run, Depends(get_run)], session: SessionOf) -> list[TabLink]:
    """Tabs of the run of a path."""
    return await run_tabs(session, run)


TabsOf = Annotated[list[TabLink], Depends(get_run_tabs)]
PageOf = Annotated[PageRequest, Depends(get_page)]
DrawnPageOf = Annotated[PageRequest, Depends(get_drawn_page)]
RunOf = Annotated[Run, Depends(get_run)]


class RunView(NamedTuple):
    """A list of runs as an address holds it."""

    wanted: RunFilter
    sort: RunColumn
    order: Literal["desc", "asc"]


async def get_run_view(
    state: Annotated[RunState | Literal[""], Query()] = "",
    recipe: Annotated[str, Query(max_length=200)] = "",
    search: Annotated[str, Query(max_length=200, description="Part of a name")] = "",
    owner: Annotated[str, Query(max_length=100, description="Who submitted it")] = "",
    tag: Annotated[str, Query(max_length=50)] = "",
    champion: Annotated[bool, Query(description="Runs whose model is the champion, and no others")] = False,
    days: Annotated[int | Literal[""], Query(description="Runs that began within so many days")] = "",
    where: Annotated[str, Query(max_length=200, examples=["reward >= 0.6, dollars < 2"])] = "",
    sort: RunColumn = "changed",
    order: Literal["desc", "asc"] = "desc",
) -> RunView:
    """Filters and order of a list of runs."""
    since = min(max(days, 0), 36_500) if days != "" else None
    return RunView(RunFilter(state, recipe, search.strip(), owner, tag, champion, since, where), sort, order)


RunViewOf = Annotated[RunView, Depends(get_run_view)]
RunsToCompare = Annotated[list[str], Query(alias="run", max_length=20, description="Names of two to eight runs")]


class RolloutView(NamedTuple):
    """A list of rollouts as an address holds it."""

    wanted: RolloutFilter
    sort: Sort
    order: Literal["asc", "desc"]


Reward = Annotated[Annotated[float, Field(allow_inf_nan=False)] | Literal[""], Query()]


async def get_rollout_view(
    text: Annotated[str, Query(max_length=200, description="Part of the response, in either case")] = "",
    least: Reward = "",
    most: Reward = "",
    criterion: Annotated[str, Query(max_length=2000)] = "",
    met: Annotated[Met, Query(description="Whether the criterion was met in full")] = "",
    truncated: Annotated[bool, Query(description="Rollouts that were cut off at the recipe's limit of tokens")] = False,
    unjudged: Annotated[bool, Query(description="Rollouts without a reward")] = False,
    file: Annotated[str, Query(max_length=200, description="Part of the names of the pictures' files")] = "",
    step: Annotated[int | Literal[""], Query()] = "",
    sort: Sort = "step",
    order: Literal["asc", "desc"] = "asc",
) -> RolloutView:
    """Filters and order of a list of rollouts."""
    at = None if step == "" else min(max(step, 0), (1 << 31) - 1)
    low, high = (None if bound == "" else bound for bound in (least, most))
    wanted = RolloutFilter(text.strip(), low, high, criterion, met, truncated, unjudged, file, at)
    return RolloutView(wanted, sort, order)


RolloutViewOf = Annotated[RolloutView, Depends(get_rollout_view)]


async def get_responses(run: RunOf, session: SessionOf) -> RunTable:
    """The responses that a run scored."""
    return await runs.get_table(session, run.name, "score/responses", "responses")


async def get_set(run: RunOf, stage: StageName, session: SessionOf) -> RunTable:
    """The rubric set of a stage."""
    return await runs.get_table(session, run.name, stage, "rubrics")


ResponsesOf = Annotated[RunTable, Depends(get_responses)]
SetOf = Annotated[RunTable, Depends(get_set)]


async def get_set_before(
    rubric_set: SetOf,
    session: SessionOf,
    before_set: Annotated[
        str | None,
        Query(max_length=301, pattern=r"^[\w.-]+/[\w-]+$", description="`RUN/STAGE`; by default the set itself"),
    ] = None,
) -> RunTable:
    """The rubric set that another one is compared with."""
    if before_set is None:
        return rubric_set
    run, _, stage = before_set.partition("/")
    return await get_set(await runs.get_run(session, run), stage, session)


SetBefore = Annotated[RunTable, Depends(get_set_before)]
VersionNumber = Annotated[int | None, Query(ge=1, lt=1 << 31, description="By default the one that stands")]
VersionBefore = Annotated[
    int | None, Query(ge=1, lt=1 << 31, description="By default the stage's own; of another set, the one that stands")
]
OtherRuns = Annotated[
    list[str],
    Query(alias="with", max_length=3, description="Other runs, whose judges of the same stage are compared too"),
]
Reveal = Annotated[bool, Query(description="Tell the result although the caller has not chosen often enough yet")]
RunNames = Annotated[list[str], Query(alias="run", max_length=12, description="By default the last evaluated ones")]
Against = Annotated[str | None, Query(max_length=200, description="Model that the others are compared with")]
EveryFigure = Annotated[bool, Query(alias="all", description="Every part of every scorer, not only the first")]


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


async def get_promotions(request: Request) -> Promotions:
    """The promotions of the service.

    Raises:
        Problem: it has no registry.
    """
    service: Promotions | None = request.app.state.promotions
    if service is None:
        raise Problem(503, "No registry", "this service has no model registry; set MLFLOW_TRACKING_URI")
    return service


SubmissionsOf = Annotated[Submissions, Depends(get_submissions)]
KubeflowOf = Annotated[KubeflowRuns, Depends(get_kubeflow)]
PromotionsOf = Annotated[Promotions, Depends(get_promotions)]
Pipeline = Annotated[str, Query(max_length=128, description="Name of a pipeline", examples=["rubicap"])]
Search = Annotated[str, Query(max_length=200, description="Part of a name; a run's begins with its recipe's")]
RemoteCursor = Annotated[
    str | None,
    Query(max_length=6000, description="`next_cursor` of the page before, with the same filters; it holds Kubeflow's"),
]
DeadFolder = Annotated[str | None, Query(alias="stage", max_length=300)]
DeadReason = Annotated[str | None, Query(max_length=100)]
