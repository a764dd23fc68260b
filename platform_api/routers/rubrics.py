"""Routes of rubric sets: browse, figures of criteria, versions, reviews."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from rubricworks.platform_api.pagination import list_page
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    Approver,
    Number,
    PageOf,
    Runner,
    SampleId,
    SessionOf,
    SetBefore,
    SetOf,
    StoreOf,
    VersionBefore,
    VersionNumber,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import Page
from rubricworks.platform_api.schemas.promotions import Decision
from rubricworks.platform_api.schemas.rubrics import (
    CriterionUseBody,
    RubricBody,
    RubricDiff,
    RubricEntryBody,
    RubricProposal,
    RubricSetBody,
    RubricVersionBody,
    SampleChangeBody,
    VersionState,
)
from rubricworks.platform_api.services.rubrics import rubric_comparison, rubric_sets, rubric_versions

router = APIRouter(
    prefix="/api/v1", tags=["rubrics"], responses=PROBLEMS, route_class=KeyedRoute, dependencies=[VIEWERS]
)
InRun = Annotated[str | None, Query(max_length=200)]


@router.get("/rubric-sets", summary="List rubric sets, the last written first")
async def list_sets(session: SessionOf, asked: PageOf, run: InRun = None) -> Page[RubricSetBody]:
    return await rubric_sets.list_sets(session, asked, run)


@router.get("/runs/{run}/rubrics/{stage}", summary="List the rubrics of a set")
async def list_rubrics(rubric_set: SetOf, session: SessionOf, store: StoreOf, asked: PageOf) -> Page[RubricEntryBody]:
    return await rubric_sets.list_entries(session, store, rubric_set, asked)


@router.get("/runs/{run}/rubrics/{stage}/criteria", summary="Figures of the criteria of a set")
async def list_criteria(rubric_set: SetOf, session: SessionOf, store: StoreOf, asked: PageOf) -> Page[CriterionUseBody]:
    return list_page(await rubric_sets.list_criteria(session, store, rubric_set), asked)


@router.get(
    "/runs/{run}/rubrics/{stage}/export",
    summary="The set as Parquet, each sample with the version that stands",
    response_class=Response,
    responses={200: {"content": {"application/vnd.apache.parquet": {}}, "description": "Columns of `rubrics`"}},
)
async def export_set(rubric_set: SetOf, session: SessionOf, store: StoreOf) -> Response:
    content = await rubric_sets.export(session, store, rubric_set)
    headers = {"Content-Disposition": 'attachment; filename="rubrics.parquet"'}
    return Response(content, media_type="application/vnd.apache.parquet", headers=headers)


@router.get("/runs/{run}/rubrics/{stage}/compare", summary="Compare the set with another one, sample by sample")
async def compare_sets(
    rubric_set: SetOf, before: SetBefore, session: SessionOf, store: StoreOf, asked: PageOf
) -> Page[SampleChangeBody]:
    return list_page(await rubric_comparison.compare_sets(session, store, before, rubric_set), asked)


@router.get("/runs/{run}/rubrics/{stage}/{sample_id}", summary="Show a rubric with its versions")
async def show_rubric(
    sample_id: SampleId, rubric_set: SetOf, session: SessionOf, store: StoreOf, version: VersionNumber = None
) -> RubricBody:
    return await rubric_versions.show_rubric(session, store, rubric_set, sample_id, version)


@router.get(
    "/runs/{run}/rubrics/{stage}/{sample_id}/diff", summary="Compare two versions of a rubric, or those of two sets"
)
async def compare_versions(
    sample_id: SampleId,
    rubric_set: SetOf,
    set_before: SetBefore,
    session: SessionOf,
    store: StoreOf,
    before: VersionBefore = None,
    after: VersionNumber = None,
) -> RubricDiff:
    versions = (set_before, before), (rubric_set, after)
    return await rubric_comparison.compare_versions(session, store, sample_id, *versions)


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
    session: SessionOf, asked: PageOf, state: VersionState | None = None, run: InRun = None
) -> Page[RubricVersionBody]:
    return await rubric_versions.list_versions(session, asked, state=state, run=run)


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
