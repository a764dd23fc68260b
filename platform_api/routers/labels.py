"""Routes of labels, preferences and agreement: people's judgement beside the judges'."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse, Response

from rubricworks.grading.agreement.report import AgreementReport
from rubricworks.platform_api.cursors import before_row, newest_page
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    Cursor,
    Limit,
    Runner,
    SessionOf,
    StoreOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.schemas.labels import (
    ComparableModels,
    ImportResult,
    LabelBody,
    LabelPage,
    LabelRequest,
    PreferenceBody,
    PreferencePage,
    PreferenceRequest,
    StandingBody,
)
from rubricworks.platform_api.services import labels, preferences, run_tables, runs
from rubricworks.platform_api.services.judges import judge_verdicts

router = APIRouter(prefix="/api/v1/runs/{run}", tags=["labels"], responses=PROBLEMS, route_class=KeyedRoute)
CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}, "description": "One line per label"}}
_LABELS = "sample_id,criterion,label,response,rater\n2b71b300c10aae76,Names the red star,1,A red star.,ada\n"
_PREFERENCES = "sample_id,first,second,choice,rater\n2b71b300c10aae76,base,policy,second,ada\n"


def csv_body(example: str) -> dict[str, Any]:
    """The body of a CSV file, with an example of one."""
    content = {"text/csv": {"schema": {"type": "string", "examples": [example]}}}
    return {"requestBody": {"required": True, "content": content}}


async def get_scorecards(run: RunName, stage: StageName, session: SessionOf) -> RunTable:
    """The finished scorecards of a training, or the scores of an evaluation, whose scorer `rubric` has some."""
    await runs.get_run(session, run)
    table = await judge_verdicts.find_table(session, run, stage)
    return table or await run_tables.get_table(session, run, f"{stage}/scorecards", judge_verdicts.SCORECARDS)


async def get_responses(run: RunName, session: SessionOf) -> RunTable:
    """The responses that a run scored."""
    await runs.get_run(session, run)
    return await run_tables.get_table(session, run, preferences.TABLE, preferences.KIND)


OtherRuns = Annotated[
    list[str],
    Query(alias="with", max_length=3, description="Other runs, whose judges of the same stage are compared too"),
]
ScorecardsOf = Annotated[RunTable, Depends(get_scorecards)]
ResponsesOf = Annotated[RunTable, Depends(get_responses)]


@router.get("/stages/{stage}/labels", summary="List people's labels, the newest first")
async def list_labels(
    run: RunName, stage: StageName, session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> LabelPage:
    await runs.get_run(session, run)
    before = before_row(cursor)
    found = await labels.list_labels(session, run, stage, before=before, limit=limit + 1)
    page, next_cursor = newest_page(found, limit)
    return LabelPage(
        items=[LabelBody.model_validate(one) for one in page],
        next_cursor=next_cursor,
    )


@router.post("/stages/{stage}/labels", status_code=201, summary="Label a response; earlier labels of it are replaced")
async def put_labels(
    runner: Runner,
    run: RunName,
    stage: StageName,
    asked: LabelRequest,
    session: SessionOf,
    store: StoreOf,
) -> list[LabelBody]:
    await runs.get_run(session, run)
    place = (run, stage, asked.step, asked.sample_id, asked.response)
    stored = await labels.put_labels(session, store, runner, *place, asked.credits)
    return [LabelBody.model_validate(one) for one in stored]


@router.get(
    "/stages/{stage}/labels/csv",
    summary="Labels as `rubricworks agreement` reads them",
    response_class=Response,
    responses=CSV,
)
async def export_labels(run: RunName, stage: StageName, session: SessionOf, viewer: Viewer) -> Response:
    await runs.get_run(session, run)
    return csv_response(await labels.export_csv(session, run, stage), "labels.csv")


@router.post("/stages/{stage}/labels/csv", summary="Store the labels of a CSV file", openapi_extra=csv_body(_LABELS))
async def import_labels(
    runner: Runner,
    scorecards: ScorecardsOf,
    request: Request,
    session: SessionOf,
    store: StoreOf,
) -> ImportResult:
    text = await request.body()
    return ImportResult(stored=await labels.import_csv(session, store, runner, scorecards, text))


@router.get("/stages/{stage}/agreement", summary="Agreement of people and judges on a training's responses")
async def show_agreement(
    stage: StageName,
    scorecards: ScorecardsOf,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    others: OtherRuns = [],  # noqa: B006
) -> AgreementReport:
    tables = [await get_scorecards(run, stage, session) for run in others]
    return await labels.agreement(session, store, scorecards, tables)


@router.get("/preferences/models", summary="Models of a run that can be compared, and the results so far")
async def list_models(table: ResponsesOf, session: SessionOf, store: StoreOf, viewer: Viewer) -> ComparableModels:
    models = await preferences.responses(store, table)
    found = await preferences.standings(session, table.run)
    return ComparableModels(
        models={name: len(of_model) for name, of_model in models.items()},
        standings=[StandingBody(first=pair[0], second=pair[1], **one._asdict()) for pair, one in found.items()],
    )


@router.get("/preferences", summary="List people's preferences, the newest first")
async def list_preferences(
    run: RunName, session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> PreferencePage:
    await runs.get_run(session, run)
    before = before_row(cursor)
    found = await preferences.list_preferences(session, run, before=before, limit=limit + 1)
    page, next_cursor = newest_page(found, limit)
    return PreferencePage(
        items=[PreferenceBody.model_validate(one) for one in page],
        next_cursor=next_cursor,
    )


@router.post("/preferences", status_code=201, summary="Say which of two models' responses is better")
async def put_preference(
    runner: Runner,
    table: ResponsesOf,
    asked: PreferenceRequest,
    session: SessionOf,
    store: StoreOf,
) -> PreferenceBody:
    stored = await preferences.prefer(session, store, runner, table, **asked.model_dump())
    return PreferenceBody.model_validate(stored)


@router.get("/preferences/csv", summary="Preferences as CSV", response_class=Response, responses=CSV)
async def export_preferences(run: RunName, session: SessionOf, viewer: Viewer) -> Response:
    await runs.get_run(session, run)
    return csv_response(await preferences.export_csv(session, run), "preferences.csv")


@router.post("/preferences/csv", summary="Store the preferences of a CSV file", openapi_extra=csv_body(_PREFERENCES))
async def import_preferences(
    runner: Runner, table: ResponsesOf, request: Request, session: SessionOf, store: StoreOf
) -> ImportResult:
    text = await request.body()
    return ImportResult(stored=await preferences.import_csv(session, store, runner, table, text))


def csv_response(text: str, name: str) -> Response:
    """A file to download."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return PlainTextResponse(text.encode("utf-8", "replace"), media_type="text/csv", headers=headers)
