"""Pages for people's judgement: label a response, compare two models or two judges blind, look at the agreement."""

from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.problems import BadRequest, Problem
from rubricworks.platform_api.routers.dependencies import (
    OtherRuns,
    ResponsesOf,
    Reveal,
    Runner,
    RunOf,
    SampleId,
    SessionOf,
    StageName,
    Step,
    StoreOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute, form_fields
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.schemas.judgements import JudgeStandingBody
from rubricworks.platform_api.schemas.rollouts import RolloutBody
from rubricworks.platform_api.services import rollouts, runs
from rubricworks.platform_api.services.judgements import blind_choices, judge_choices, labels, model_choices
from rubricworks.platform_api.services.judgements.blind_choices import WHOLE
from rubricworks.platform_api.services.judgements.judge_choices import BlindResponse
from rubricworks.platform_api.services.judgements.judge_verdicts import Judge, verdict_table
from rubricworks.platform_api.services.rubrics.rubric_sets import find_rubric, judged_words
from rubricworks.platform_api.services.samples import SampleText, file_names, find_sample
from rubricworks.runs.store import RunStore

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_CREDITS = {"met": 1.0, "partly": 0.5, "not met": 0.0}
_SIDES = {"left": "A", "right": "B", "both": "both", "neither": "neither"}
_WHOLE_FIELD = "scorecard"
_MOST_RUNS = 50
Model = Annotated[str | None, Query(max_length=200)]
JudgeName = Annotated[str, Query(max_length=300)]


class _Judged(NamedTuple):
    """Content of the page for two judges; empty without two."""

    judged: BlindResponse | None = None
    common: int = 0
    """Responses that both judged."""
    source: Judge | None = None
    sample: SampleText | None = None
    standing: JudgeStandingBody | None = None
    file_names: dict[str, str] | None = None


@router.get("/runs/{run}/label/{stage}")
async def next_label(runner: Runner, run: RunOf, stage: StageName, request: Request, session: SessionOf) -> Response:
    place = await labels.next_group(session, run.name, stage, runner.name)
    if place is None:
        has_groups = stage in await rollouts.stages_with_rollouts(session, run.name)
        return draw_page(request, runner, "labelled.html", run=run, stage=stage, has_groups=has_groups)
    target = request.url_for("label_page", run=run.name, stage=stage, step=place[0], sample_id=place[1])
    return RedirectResponse(target.path, status_code=303)


@router.get("/runs/{run}/label/{stage}/{step}/{sample_id}")
async def label_page(
    runner: Runner,
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    response: Annotated[str | None, Query(max_length=16)] = None,
) -> Response:
    member = await _member(session, store, run.name, stage, step, sample_id, response)
    titles = [verdict.criterion for verdict in member.verdicts]
    counts = await labels.count_labels(session, run.name, stage)
    return draw_page(
        request,
        runner,
        "label.html",
        run=run,
        stage=stage,
        step=step,
        sample_id=sample_id,
        sample=await find_sample(session, store, run.name, sample_id),
        file_names=await file_names(session, run.name, [sample_id]),
        member=member,
        words=judged_words(await find_rubric(session, store, run.name, sample_id, titles)),
        digest=labels.response_digest(member.response),
        count=counts.get(runner.name, 0),
        credits=list(_CREDITS),
    )


@router.post("/runs/{run}/label/{stage}/{step}/{sample_id}")
async def label_by_form(
    runner: Runner,
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
) -> Response:
    fields = await form_fields(request)
    member = await _member(session, store, run.name, stage, step, sample_id, fields.get("response"))
    credits = {
        verdict.criterion: _CREDITS[choice]
        for number, verdict in enumerate(member.verdicts)
        if (choice := fields.get(f"criterion-{number}", "")) in _CREDITS
    }
    await labels.put_labels(session, store, runner, run.name, stage, step, sample_id, member.response, credits)
    return RedirectResponse(request.url_for("next_label", run=run.name, stage=stage).path, status_code=303)


@router.get("/runs/{run}/agreement/{stage}")
async def agreement_page(
    store: StoreOf,
    run: RunOf,
    stage: StageName,
    request: Request,
    session: SessionOf,
    viewer: Viewer,
    others: OtherRuns = [],  # noqa: B006
) -> Response:
    report, problem = None, ""
    try:
        named = [await runs.get_run(session, name) for name in others if name]
        tables = [await verdict_table(session, record.name, stage) for record in (run, *named)]
        report = await labels.agreement(session, store, tables[0], tables[1:])
    except Problem as error:  # nothing to compare yet, or the training is going
        problem = error.detail
    scorecards = await runs.list_tables(session, "scorecards", limit=_MOST_RUNS)
    return draw_page(
        request,
        viewer,
        "agreement.html",
        run=run,
        stage=stage,
        report=report,
        problem=problem,
        chosen=others[0] if others else "",
        others=[table.run for table in scorecards if table.path == f"{stage}/scorecards" and table.run != run.name],
        counts=await labels.count_labels(session, run.name, stage),
        has_groups=stage in await rollouts.stages_with_rollouts(session, run.name),
    )


@router.get("/runs/{run}/compare")
async def compare_page(
    runner: Runner,
    store: StoreOf,
    run: RunOf,
    table: ResponsesOf,
    request: Request,
    session: SessionOf,
    first: Model = None,
    second: Model = None,
) -> Response:
    comparable = await model_choices.comparable_models(session, store, table)
    models = list(comparable.models)
    first = first or next(iter(models), "")
    second = second or model_choices.other_model(models, first)
    pair = None
    if first != second:
        comparison = await model_choices.compare_models(store, table, first, second)
        pair = await model_choices.next_pair(session, store, table, comparison, runner.name)
    return draw_page(
        request,
        runner,
        "compare.html",
        run=run,
        models=models,
        first=first,
        second=second,
        pair=pair,
        sample=await find_sample(session, store, run.name, pair.sample_id) if pair else None,
        file_names=await file_names(session, run.name, [pair.sample_id]) if pair else None,
        standings=comparable.standings,
    )


@router.post("/runs/{run}/compare")
async def prefer_by_form(
    runner: Runner, table: ResponsesOf, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    fields = await form_fields(request)
    first, second, sample_id, side = (fields.get(name, "") for name in ("first", "second", "sample_id", "side"))
    if side not in ("left", "right", "equal"):
        raise BadRequest("side: choose left, right or equal")
    comparison = await model_choices.compare_models(store, table, first, second)
    choice = comparison.choice_of(side, sample_id, runner.name)
    await blind_choices.choose(session, runner, comparison, sample_id, {WHOLE: choice})
    target = request.url_for("compare_page", run=table.run).include_query_params(first=first, second=second)
    return RedirectResponse(f"{target.path}?{target.query}", status_code=303)


@router.get("/runs/{run}/compare-judges")
async def compare_judges_page(
    runner: Runner,
    store: StoreOf,
    run: RunOf,
    request: Request,
    session: SessionOf,
    first: JudgeName = "",
    second: JudgeName = "",
    others: OtherRuns = [],  # noqa: B006
    reveal: Reveal = False,
) -> Response:
    others = [name for name in others if name]
    judges = list(await judge_choices.judges_of_runs(session, store, [run.name, *others]))
    is_asked = bool(first or second)
    if not is_asked:
        first, second = await judge_choices.first_common_pair(session, store, run.name, judges) or ("", "")
    left = first or next(iter(judges), "")
    right = second or next((judge for judge in judges if judge != left), left)
    written = await judge_choices.tables_with_verdicts(session, limit=_MOST_RUNS)
    drawn = _Judged()
    if left != right:
        drawn = await _judged(session, store, run.name, left, right, runner.name, reveal=reveal)
    return draw_page(
        request,
        runner,
        "compare_judges.html",
        run=run,
        judges=judges,
        first=left,
        second=right,
        chosen=others[0] if others else "",
        others=sorted({table.run for table in written} - {run.name}),
        no_pair=not is_asked and not first,
        sides=_SIDES,
        **drawn._asdict(),
    )


@router.post("/runs/{run}/compare-judges")
async def choose_by_form(runner: Runner, store: StoreOf, run: RunOf, request: Request, session: SessionOf) -> Response:
    fields = await form_fields(request)
    first, second, other, key = (fields.get(name, "") for name in ("first", "second", "with", "response"))
    pair = await judge_choices.find_pair(session, store, run.name, first, second)
    comparison = await judge_choices.compare_judges(run.name, pair)
    _, *criteria = comparison.subject(key).criteria
    asked = {f"criterion-{number}": criterion for number, criterion in enumerate(criteria)} | {_WHOLE_FIELD: WHOLE}
    choices = {
        criterion: comparison.choice_of(fields[name], key, runner.name)
        for name, criterion in asked.items()
        if fields.get(name) in _SIDES
    }
    if not choices:
        raise BadRequest("choose A, B, both or neither for at least one criterion, or for the whole scorecard")
    await blind_choices.choose(session, runner, comparison, key, choices)
    query = {"first": first, "second": second} | ({"with": other} if other else {})
    target = request.url_for("compare_judges_page", run=run.name).include_query_params(**query)
    return RedirectResponse(f"{target.path}?{target.query}", status_code=303)


async def _judged(
    session: AsyncSession, store: RunStore, run: str, first: str, second: str, rater: str, *, reveal: bool
) -> _Judged:
    pair = await judge_choices.find_pair(session, store, run, first, second)
    comparison = await judge_choices.compare_judges(run, pair)
    judged = await judge_choices.next_response(session, comparison, pair, rater)
    return _Judged(
        judged,
        common=sum(map(len, comparison.keys)),
        source=pair.first,
        sample=await find_sample(session, store, pair.first.table.run, judged.sample_id) if judged else None,
        standing=await judge_choices.standing_for(session, comparison, pair, rater, reveal=reveal),
        file_names=await file_names(session, pair.first.table.run, [judged.sample_id]) if judged else None,
    )


async def _member(
    session: AsyncSession, store: RunStore, run: str, stage: str, step: int, sample_id: str, digest: str | None
) -> RolloutBody:
    """The response that an address names, or else one of the group that its rank does not choose."""
    members = (await rollouts.get_group(session, store, run, stage, step, sample_id)).rollouts
    graded = {labels.response_digest(member.response): member for member in members if member.verdicts}
    if not graded or (digest is not None and digest not in graded):
        raise BadRequest(f"the group of sample {sample_id!r} in step {step} has no such response with criteria")
    return graded[digest or min(graded)]
