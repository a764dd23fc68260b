"""Routes of rubric sets: browse, figures of criteria, versions, reviews."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from rubricworks.platform_api.cursors import (
    before_row,
    decode_cursor,
    decode_time,
    encode_cursor,
    newest_page,
    row_cursor,
)
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Approver,
    Cursor,
    Limit,
    Runner,
    SessionOf,
    StoreOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.routers.promotions import Number
from rubricworks.platform_api.routers.rollouts import SampleId
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.schemas.promotions import Decision
from rubricworks.platform_api.schemas.rubrics import (
    CriterionChangeBody,
    CriterionUseBody,
    CriterionUsePage,
    RubricBody,
    RubricDiff,
    RubricEntryBody,
    RubricEntryPage,
    RubricProposal,
    RubricSetBody,
    RubricSetPage,
    RubricVersionBody,
    RubricVersionPage,
    SampleChangeBody,
    SampleChangePage,
    VersionState,
)
from rubricworks.platform_api.services import run_tables, runs
from rubricworks.platform_api.services.rubrics import rubric_comparison, rubric_sets, rubric_versions

router = APIRouter(prefix="/api/v1", tags=["rubrics"], responses=PROBLEMS, route_class=KeyedRoute)
VersionNumber = Annotated[int | None, Query(ge=1, lt=1 << 31, description="By default the one that stands")]
VersionBefore = Annotated[
    int | None, Query(ge=1, lt=1 << 31, description="By default the stage's own; of another set, the one that stands")
]


async def get_set(run: RunName, stage: StageName, session: SessionOf) -> RunTable:
    """The rubric set of a stage."""
    await runs.get_run(session, run)
    return await run_tables.get_table(session, run, stage, rubric_sets.KIND)


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
    return await get_set(run, stage, session)


SetBefore = Annotated[RunTable, Depends(get_set_before)]


@router.get("/rubric-sets", summary="List rubric sets, the last written first")
async def list_sets(
    session: SessionOf,
    viewer: Viewer,
    run: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> RubricSetPage:
    found = await run_tables.list_tables(
        session, rubric_sets.KIND, run=run, before=table_cursor(cursor), limit=limit + 1
    )
    items = [
        RubricSetBody(run=one.run, stage=one.path, rubrics=one.rows, modified=one.modified) for one in found[:limit]
    ]
    return RubricSetPage(items=items, next_cursor=next_table(found, limit))


@router.get("/runs/{run}/rubrics/{stage}", summary="List the rubrics of a set")
async def list_rubrics(
    rubric_set: SetOf, session: SessionOf, store: StoreOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> RubricEntryPage:
    start = row_cursor(cursor)
    found = await rubric_sets.list_entries(session, store, rubric_set, start, limit)
    return RubricEntryPage(
        items=[RubricEntryBody.model_validate(one) for one in found],
        next_cursor=encode_cursor(start + limit) if start + limit < rubric_set.rows else None,
    )


@router.get("/runs/{run}/rubrics/{stage}/criteria", summary="Figures of the criteria of a set")
async def list_criteria(
    rubric_set: SetOf, session: SessionOf, store: StoreOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> CriterionUsePage:
    start = row_cursor(cursor)
    found = await rubric_sets.list_criteria(session, store, rubric_set)
    return CriterionUsePage(
        items=[CriterionUseBody.model_validate(one) for one in found[start : start + limit]],
        next_cursor=encode_cursor(start + limit) if start + limit < len(found) else None,
    )


@router.get(
    "/runs/{run}/rubrics/{stage}/export",
    summary="The set as Parquet, each sample with the version that stands",
    response_class=Response,
    responses={200: {"content": {"application/vnd.apache.parquet": {}}, "description": "Columns of `rubrics`"}},
)
async def export_set(rubric_set: SetOf, session: SessionOf, store: StoreOf, viewer: Viewer) -> Response:
    content = await rubric_sets.export(session, store, rubric_set)
    headers = {"Content-Disposition": 'attachment; filename="rubrics.parquet"'}
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)


@router.get("/runs/{run}/rubrics/{stage}/compare", summary="Compare the set with another one, sample by sample")
async def compare_sets(
    rubric_set: SetOf,
    before: SetBefore,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> SampleChangePage:
    start = row_cursor(cursor)
    found = await rubric_comparison.compare_sets(session, store, before, rubric_set)
    return SampleChangePage(
        items=[SampleChangeBody.model_validate(one) for one in found[start : start + limit]],
        next_cursor=encode_cursor(start + limit) if start + limit < len(found) else None,
    )


@router.get("/runs/{run}/rubrics/{stage}/{sample_id}", summary="Show a rubric with its versions")
async def show_rubric(
    sample_id: SampleId,
    rubric_set: SetOf,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    version: VersionNumber = None,
) -> RubricBody:
    number, rubric = await rubric_versions.rubric_of(session, store, rubric_set, sample_id, version)
    _, origin = await rubric_sets.stage_rubric(store, rubric_set, sample_id)
    versions = await rubric_versions.versions_of(session, rubric_set, sample_id)
    return RubricBody(
        sample_id=sample_id,
        version=number,
        standing=rubric_versions.standing_version(versions),
        writer=origin["writer"],
        rubric=rubric,
        versions=[RubricVersionBody.model_validate(one) for one in versions],
    )


@router.get(
    "/runs/{run}/rubrics/{stage}/{sample_id}/diff", summary="Compare two versions of a rubric, or those of two sets"
)
async def compare_versions(
    sample_id: SampleId,
    rubric_set: SetOf,
    set_before: SetBefore,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    before: VersionBefore = None,
    after: VersionNumber = None,
) -> RubricDiff:
    number = before or default_before(set_before, rubric_set)
    first, old = await rubric_versions.rubric_of(session, store, set_before, sample_id, number)
    second, new = await rubric_versions.rubric_of(session, store, rubric_set, sample_id, after)
    criteria = [CriterionChangeBody.model_validate(one) for one in rubric_comparison.compare(old, new)]
    return RubricDiff(before=first, after=second, criteria=criteria)


@router.post("/runs/{run}/rubrics/{stage}/{sample_id}/versions", status_code=201, summary="Propose a version")
async def propose_version(
    runner: Runner,
    sample_id: SampleId,
    proposal: RubricProposal,
    rubric_set: SetOf,
    session: SessionOf,
    store: StoreOf,
) -> RubricVersionBody:
    version = await rubric_versions.propose(
        session,
        store,
        runner,
        rubric_set,
        sample_id,
        proposal.rubric,
        replaces=proposal.replaces,
        reason=proposal.reason,
    )
    return RubricVersionBody.model_validate(version)


@router.get("/rubric-versions", summary="List edited versions, the newest first")
async def list_versions(
    session: SessionOf,
    viewer: Viewer,
    state: VersionState | None = None,
    run: Annotated[str | None, Query(max_length=200)] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> RubricVersionPage:
    before = before_row(cursor)
    found = await rubric_versions.list_versions(session, state=state, run=run, before=before, limit=limit + 1)
    page, next_cursor = newest_page(found, limit)
    return RubricVersionPage(
        items=[RubricVersionBody.model_validate(one) for one in page],
        next_cursor=next_cursor,
    )


@router.post("/rubric-versions/{number}/approve", summary="Approve a version that somebody else proposed")
async def approve_version(
    number: Number, decision: Decision, session: SessionOf, approver: Approver, request: Request
) -> RubricVersionBody:
    waived = request.app.state.settings.self_approval
    version = await rubric_versions.review(session, approver, number, "approved", decision.reason, self_approval=waived)
    return RubricVersionBody.model_validate(version)


@router.post("/rubric-versions/{number}/reject", summary="Reject a version")
async def reject_version(
    number: Number, decision: Decision, session: SessionOf, approver: Approver
) -> RubricVersionBody:
    version = await rubric_versions.review(session, approver, number, "rejected", decision.reason)
    return RubricVersionBody.model_validate(version)


def default_before(before: RunTable, after: RunTable) -> int | None:
    """Number of the version that a rubric is compared with; None for the one that stands."""
    return rubric_sets.FIRST if (before.run, before.path) == (after.run, after.path) else None


def table_cursor(cursor: str | None) -> tuple[datetime, str, str] | None:
    """Place of the table after which a page begins."""
    if cursor is None:
        return None
    modified, run, path = decode_cursor(cursor, str, str, str)
    return decode_time(modified), run, path


def next_table(found: Sequence[RunTable], limit: int) -> str | None:
    """Cursor of the page after one of tables."""
    if len(found) <= limit:
        return None
    last = found[limit - 1]
    return encode_cursor(last.modified.isoformat(), last.run, last.path)
