"""Routes of people's judgements: labels, agreement with judges, choices between two models or two judges."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import PlainTextResponse, Response
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.grading.agreement.report import AgreementReport
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.routers.dependencies import (
    PROBLEMS,
    VIEWERS,
    OtherRuns,
    PageOf,
    ResponsesOf,
    Reveal,
    Runner,
    RunOf,
    SessionOf,
    StageName,
    StoreOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import KeyedRoute
from rubricworks.platform_api.schemas.bodies import JsonObject, Page
from rubricworks.platform_api.schemas.judgements import (
    ComparableJudges,
    ComparableModels,
    ImportResult,
    JudgePreferenceBody,
    JudgePreferenceRequest,
    JudgeStandingBody,
    LabelBody,
    LabelRequest,
    PreferenceBody,
    PreferenceRequest,
)
from rubricworks.platform_api.services import runs
from rubricworks.platform_api.services.judgements import blind_choices, judge_choices, labels, model_choices
from rubricworks.platform_api.services.judgements.blind_choices import JUDGES, MODELS, WHOLE, Comparison
from rubricworks.platform_api.services.judgements.judge_verdicts import verdict_table

router = APIRouter(
    prefix="/api/v1/runs/{run}",
    tags=["labels"],
    responses=PROBLEMS,
    route_class=KeyedRoute,
    dependencies=[VIEWERS],
)
_CSV: dict[int | str, JsonObject] = {200: {"content": {"text/csv": {}}, "description": "One line per label"}}
_LABELS = "sample_id,criterion,label,response,rater\n2b71b300c10aae76,Names the red star,1,A red star.,ada\n"
_PREFERENCES = "sample_id,first,second,choice,rater\n2b71b300c10aae76,base,policy,second,ada\n"
_JUDGE_PREFERENCES = (
    "sample_id,response,criterion,first,second,choice,rater\n"
    "2b71b300c10aae76,A red star.,Names the red star,judge-1 in today-1/score,judge-1 in later-2/score,first,ada\n"
)


def _csv_body(example: str) -> JsonObject:
    """The body of a CSV file, with an example of one."""
    content = {"text/csv": {"schema": {"type": "string", "examples": [example]}}}
    return {"requestBody": {"required": True, "content": content}}


def _csv_file(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return PlainTextResponse(text.encode("utf-8", "replace"), media_type="text/csv", headers=headers)


async def get_scorecards(run: RunOf, stage: StageName, session: SessionOf) -> RunTable:
    """Finished scorecards of a training, or of the scorer `rubric` in an evaluation."""
    return await verdict_table(session, run.name, stage)


Judges = tuple[judge_choices.Pair, Comparison]
JudgeName = Annotated[str, Query(min_length=1, max_length=300, examples=["judge-1 in today-1/score"])]
ScorecardsOf = Annotated[RunTable, Depends(get_scorecards)]


async def _judges(session: AsyncSession, store: StoreOf, run: str, first: str, second: str) -> Judges:
    pair = await judge_choices.find_pair(session, store, run, first, second)
    return pair, await judge_choices.compare_judges(run, pair)


@router.get("/stages/{stage}/labels", summary="List people's labels, the newest first")
async def list_labels(run: RunOf, stage: StageName, session: SessionOf, asked: PageOf) -> Page[LabelBody]:
    return await labels.list_labels(session, run.name, stage, asked)


@router.post("/stages/{stage}/labels", status_code=201, summary="Label a response; earlier labels of it are replaced")
async def put_labels(
    runner: Runner, store: StoreOf, run: RunOf, stage: StageName, asked: LabelRequest, session: SessionOf
) -> list[LabelBody]:
    place = (run.name, stage, asked.step, asked.sample_id, asked.response)
    stored = await labels.put_labels(session, store, runner, *place, asked.credits)
    return [LabelBody.model_validate(label) for label in stored]


@router.get(
    "/stages/{stage}/labels/csv",
    summary="Labels as `rubricworks agreement` reads them",
    response_class=Response,
    responses=_CSV,
)
async def export_labels(run: RunOf, stage: StageName, session: SessionOf) -> Response:
    return _csv_file(await labels.export_csv(session, run.name, stage), "labels.csv")


@router.post("/stages/{stage}/labels/csv", summary="Store the labels of a CSV file", openapi_extra=_csv_body(_LABELS))
async def import_labels(
    runner: Runner, scorecards: ScorecardsOf, request: Request, session: SessionOf, store: StoreOf
) -> ImportResult:
    return ImportResult(stored=await labels.import_csv(session, store, runner, scorecards, await request.body()))


@router.get("/stages/{stage}/agreement", summary="Agreement of people and judges on a training's responses")
async def show_agreement(
    stage: StageName,
    scorecards: ScorecardsOf,
    session: SessionOf,
    store: StoreOf,
    others: OtherRuns = [],  # noqa: B006
) -> AgreementReport:
    tables = [await verdict_table(session, (await runs.get_run(session, run)).name, stage) for run in others]
    return await labels.agreement(session, store, scorecards, tables)


@router.get("/preferences/models", summary="Models of a run that can be compared, and the results so far")
async def list_models(table: ResponsesOf, session: SessionOf, store: StoreOf) -> ComparableModels:
    return await model_choices.comparable_models(session, store, table)


@router.get("/preferences", summary="List people's preferences, the newest first")
async def list_preferences(run: RunOf, session: SessionOf, asked: PageOf) -> Page[PreferenceBody]:
    return await blind_choices.list_choices(session, MODELS, run.name, asked, PreferenceBody)


@router.post("/preferences", status_code=201, summary="Say which of two models' responses is better")
async def put_preference(
    runner: Runner, table: ResponsesOf, asked: PreferenceRequest, session: SessionOf, store: StoreOf
) -> PreferenceBody:
    comparison = await model_choices.compare_models(store, table, asked.first, asked.second)
    (stored,) = await blind_choices.choose(session, runner, comparison, asked.sample_id, {WHOLE: asked.choice})
    return PreferenceBody.model_validate(stored)


@router.get("/preferences/csv", summary="Preferences as CSV", response_class=Response, responses=_CSV)
async def export_preferences(run: RunOf, session: SessionOf) -> Response:
    return _csv_file(await blind_choices.export_csv(session, MODELS, run.name), "preferences.csv")


@router.post("/preferences/csv", summary="Store the preferences of a CSV file", openapi_extra=_csv_body(_PREFERENCES))
async def import_preferences(
    runner: Runner, table: ResponsesOf, request: Request, session: SessionOf, store: StoreOf
) -> ImportResult:
    async def find(first: str, second: str) -> Comparison:
        return await model_choices.compare_models(store, table, first, second)

    text = await request.body()
    return ImportResult(stored=await blind_choices.import_csv(session, runner, MODELS, table.run, text, find))


@router.get("/judge-preferences/judges", summary="Judges of a run, and of others, whose verdicts can be compared")
async def list_judges(
    store: StoreOf,
    run: RunOf,
    session: SessionOf,
    others: OtherRuns = [],  # noqa: B006
) -> ComparableJudges:
    return ComparableJudges(judges=await judge_choices.judges_of_runs(session, store, [run.name, *others]))


@router.get(
    "/judge-preferences/standing",
    summary="How often each of two judges is right, once the caller has chosen often enough",
)
async def show_standing(
    viewer: Viewer,
    store: StoreOf,
    run: RunOf,
    session: SessionOf,
    first: JudgeName,
    second: JudgeName,
    reveal: Reveal = False,
) -> JudgeStandingBody:
    pair, comparison = await _judges(session, store, run.name, first, second)
    return await judge_choices.standing_for(session, comparison, pair, viewer.name, reveal=reveal)


@router.get("/judge-preferences", summary="List people's choices between judges, the newest first")
async def list_judge_preferences(run: RunOf, session: SessionOf, asked: PageOf) -> Page[JudgePreferenceBody]:
    return await blind_choices.list_choices(session, JUDGES, run.name, asked, JudgePreferenceBody)


@router.post(
    "/judge-preferences",
    status_code=201,
    summary="Say whose verdicts on a response are right; earlier choices are replaced",
)
async def put_judge_preferences(
    runner: Runner, store: StoreOf, run: RunOf, asked: JudgePreferenceRequest, session: SessionOf
) -> list[JudgePreferenceBody]:
    _, comparison = await _judges(session, store, run.name, asked.first, asked.second)
    key = comparison.key_of(asked.sample_id, asked.response)
    stored = await blind_choices.choose(session, runner, comparison, key, asked.choices)
    return [JudgePreferenceBody.model_validate(choice) for choice in stored]


@router.get("/judge-preferences/csv", summary="Choices between judges as CSV", response_class=Response, responses=_CSV)
async def export_judge_preferences(run: RunOf, session: SessionOf) -> Response:
    return _csv_file(await blind_choices.export_csv(session, JUDGES, run.name), "judge-preferences.csv")


@router.post(
    "/judge-preferences/csv",
    summary="Store the choices of a CSV file",
    openapi_extra=_csv_body(_JUDGE_PREFERENCES),
)
async def import_judge_preferences(
    runner: Runner, store: StoreOf, run: RunOf, request: Request, session: SessionOf
) -> ImportResult:
    async def find(first: str, second: str) -> Comparison:
        return (await _judges(session, store, run.name, first, second))[1]

    text = await request.body()
    return ImportResult(stored=await blind_choices.import_csv(session, runner, JUDGES, run.name, text, find))
