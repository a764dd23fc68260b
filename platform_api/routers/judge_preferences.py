"""Routes of two judges on the same responses: people's choices between their verdicts, and whose are right."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from rubricworks.platform_api.cursors import before_row, newest_page
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
from rubricworks.platform_api.routers.labels import CSV, OtherRuns, csv_body, csv_response
from rubricworks.platform_api.routers.runs import RunName
from rubricworks.platform_api.schemas.judge_preferences import (
    ComparableJudges,
    JudgePreferenceBody,
    JudgePreferencePage,
    JudgePreferenceRequest,
    JudgeStandingBody,
    JudgeStandingResult,
)
from rubricworks.platform_api.schemas.labels import ImportResult
from rubricworks.platform_api.services import runs
from rubricworks.platform_api.services.judges import judge_preferences

router = APIRouter(
    prefix="/api/v1/runs/{run}/judge-preferences", tags=["labels"], responses=PROBLEMS, route_class=KeyedRoute
)
_CHOICES = (
    "sample_id,response,criterion,first,second,choice,rater\n"
    "2b71b300c10aae76,A red star.,Names the red star,judge-1 in today-1/score,judge-1 in later-2/score,first,ada\n"
)
JudgeName = Annotated[str, Query(min_length=1, max_length=300, examples=["judge-1 in today-1/score"])]
Reveal = Annotated[bool, Query(description="Tell the result although the caller has not chosen often enough yet")]


@router.get("/judges", summary="Judges of a run, and of others, whose verdicts can be compared")
async def list_judges(
    run: RunName,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    others: OtherRuns = [],  # noqa: B006
) -> ComparableJudges:
    return ComparableJudges(judges=await judge_preferences.judges_of_runs(session, store, [run, *others]))


@router.get("/standing", summary="How often each of two judges is right, once the caller has chosen often enough")
async def show_standing(
    run: RunName,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    first: JudgeName,
    second: JudgeName,
    reveal: Reveal = False,
) -> JudgeStandingBody:
    await runs.get_run(session, run)
    pair = await judge_preferences.find_pair(session, store, run, first, second)
    mine, result = await judge_preferences.standing_for(session, run, pair, viewer.name, reveal=reveal)
    return JudgeStandingBody(
        first=first,
        second=second,
        mine=mine,
        needed=judge_preferences.ENOUGH,
        result=JudgeStandingResult.model_validate(result) if result else None,
    )


@router.get("", summary="List people's choices between judges, the newest first")
async def list_judge_preferences(
    run: RunName, session: SessionOf, viewer: Viewer, cursor: Cursor = None, limit: Limit = 50
) -> JudgePreferencePage:
    await runs.get_run(session, run)
    before = before_row(cursor)
    found = await judge_preferences.list_choices(session, run, before=before, limit=limit + 1)
    page, next_cursor = newest_page(found, limit)
    return JudgePreferencePage(
        items=[JudgePreferenceBody.model_validate(one) for one in page],
        next_cursor=next_cursor,
    )


@router.post("", status_code=201, summary="Say whose verdicts on a response are right; earlier choices are replaced")
async def put_judge_preferences(
    runner: Runner,
    run: RunName,
    asked: JudgePreferenceRequest,
    session: SessionOf,
    store: StoreOf,
) -> list[JudgePreferenceBody]:
    await runs.get_run(session, run)
    pair = await judge_preferences.find_pair(session, store, run, asked.first, asked.second)
    stored = await judge_preferences.choose(session, runner, run, pair, asked.sample_id, asked.response, asked.choices)
    return [JudgePreferenceBody.model_validate(one) for one in stored]


@router.get("/csv", summary="Choices between judges as CSV", response_class=Response, responses=CSV)
async def export_judge_preferences(run: RunName, session: SessionOf, viewer: Viewer) -> Response:
    await runs.get_run(session, run)
    return csv_response(await judge_preferences.export_csv(session, run), "judge-preferences.csv")


@router.post("/csv", summary="Store the choices of a CSV file", openapi_extra=csv_body(_CHOICES))
async def import_judge_preferences(
    runner: Runner, run: RunName, request: Request, session: SessionOf, store: StoreOf
) -> ImportResult:
    text = await request.body()
    await runs.get_run(session, run)
    return ImportResult(stored=await judge_preferences.import_csv(session, store, runner, run, text))
