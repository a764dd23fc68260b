"""Pages for people's judgement: label a response, compare two models blind, look at the agreement."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.platform_api.problems import BadRequest, Problem
from rubricworks.platform_api.routers.dependencies import Runner, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.labels import OtherRuns, ResponsesOf, get_scorecards
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.routers.pages.forms import form_fields
from rubricworks.platform_api.routers.rollouts import SampleId, Step
from rubricworks.platform_api.routers.runs import RunName, StageName
from rubricworks.platform_api.services import labels, preferences, rollouts, run_tables, runs
from rubricworks.platform_api.services.rubrics.graded_rubrics import find_rubric, judged_words
from rubricworks.platform_api.services.samples import find_sample

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_CREDITS = {"met": 1.0, "partly": 0.5, "not met": 0.0}
_MOST_RUNS = 50
Model = Annotated[str | None, Query(max_length=200)]


@router.get("/runs/{run}/label/{stage}")
async def next_label(run: RunName, stage: StageName, request: Request, session: SessionOf, runner: Runner) -> Response:
    record = await runs.get_run(session, run)
    place = await labels.next_group(session, run, stage, runner.name)
    if place is None:
        has_groups = stage in await rollouts.stages_with_rollouts(session, run)
        return draw_page(request, runner, "labelled.html", run=record, stage=stage, has_groups=has_groups)
    target = request.url_for("label_page", run=run, stage=stage, step=place[0], sample_id=place[1])
    return RedirectResponse(target.path, status_code=303)


@router.get("/runs/{run}/label/{stage}/{step}/{sample_id}")
async def label_page(
    run: RunName,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    runner: Runner,
    response: Annotated[str | None, Query(max_length=16)] = None,
) -> Response:
    record = await runs.get_run(session, run)
    member = await _member(session, store, run, stage, step, sample_id, response)
    titles = [one["criterion"] for one in member["verdicts"]]
    counts = await labels.count_labels(session, run, stage)
    return draw_page(
        request,
        runner,
        "label.html",
        run=record,
        stage=stage,
        step=step,
        sample_id=sample_id,
        sample=await find_sample(session, store, run, sample_id),
        member=member,
        words=judged_words(await find_rubric(session, store, run, sample_id, titles)),
        digest=labels.response_digest(member["response"]),
        count=counts.get(runner.name, 0),
        credits=list(_CREDITS),
    )


@router.post("/runs/{run}/label/{stage}/{step}/{sample_id}")
async def label_by_form(
    runner: Runner,
    run: RunName,
    stage: StageName,
    step: Step,
    sample_id: SampleId,
    request: Request,
    session: SessionOf,
    store: StoreOf,
) -> Response:
    await runs.get_run(session, run)
    fields = await form_fields(request)
    member = await _member(session, store, run, stage, step, sample_id, fields.get("response"))
    credits = {
        verdict["criterion"]: _CREDITS[choice]
        for number, verdict in enumerate(member["verdicts"])
        if (choice := fields.get(f"criterion-{number}", "")) in _CREDITS
    }
    await labels.put_labels(session, store, runner, run, stage, step, sample_id, member["response"], credits)
    target = request.url_for("next_label", run=run, stage=stage)
    return RedirectResponse(target.path, status_code=303)


@router.get("/runs/{run}/agreement/{stage}")
async def agreement_page(
    run: RunName,
    stage: StageName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    others: OtherRuns = [],  # noqa: B006
) -> Response:
    record = await runs.get_run(session, run)
    report, problem = None, ""
    try:
        tables = [await get_scorecards(one, stage, session) for one in (run, *filter(None, others))]
        report = await labels.agreement(session, store, tables[0], tables[1:])
    except Problem as error:  # nothing to compare yet, or the training is going
        problem = error.detail
    return draw_page(
        request,
        viewer,
        "agreement.html",
        run=record,
        stage=stage,
        report=report,
        problem=problem,
        chosen=others[0] if others else "",
        others=[
            one.run
            for one in await run_tables.list_tables(session, "scorecards", limit=_MOST_RUNS)
            if one.path == f"{stage}/scorecards" and one.run != run
        ],
        counts=await labels.count_labels(session, record.name, stage),
        has_groups=stage in await rollouts.stages_with_rollouts(session, run),
    )


@router.get("/runs/{run}/compare")
async def compare_page(
    runner: Runner,
    table: ResponsesOf,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    first: Model = None,
    second: Model = None,
) -> Response:
    record = await runs.get_run(session, table.run)
    models = list(await preferences.responses(store, table))
    left = first or next(iter(models), "")
    chosen = (left, second or preferences.other_model(models, left))
    pair = await preferences.next_pair(session, store, table, *chosen, runner.name) if chosen[0] != chosen[1] else None
    return draw_page(
        request,
        runner,
        "compare.html",
        run=record,
        models=models,
        first=chosen[0],
        second=chosen[1],
        pair=pair,
        sample=await find_sample(session, store, table.run, pair.sample_id) if pair else None,
        standings=await preferences.standings(session, table.run),
    )


@router.post("/runs/{run}/compare")
async def prefer_by_form(
    runner: Runner, table: ResponsesOf, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    fields = await form_fields(request)
    first, second, sample_id, side = (fields.get(name, "") for name in ("first", "second", "sample_id", "side"))
    if side not in ("left", "right", "equal"):
        raise BadRequest("side: choose left, right or equal")
    pair = await preferences.pair_of(store, table, first, second, sample_id, runner.name)
    choice = preferences.choice_of_side(side, pair)
    await preferences.prefer(
        session, store, runner, table, first=first, second=second, sample_id=sample_id, choice=choice
    )
    target = request.url_for("compare_page", run=table.run).include_query_params(first=first, second=second)
    return RedirectResponse(f"{target.path}?{target.query}", status_code=303)


async def _member(
    session: Any, store: Any, run: str, stage: str, step: int, sample_id: str, digest: str | None
) -> dict[str, Any]:
    """The response that an address names, or else one of the group that its rank does not choose."""
    members = await rollouts.get_group(session, store, run, stage, step, sample_id)
    graded = {labels.response_digest(one["response"]): one for one in members if one["verdicts"]}
    if not graded or (digest is not None and digest not in graded):
        raise BadRequest(f"the group of sample {sample_id!r} in step {step} has no such response with criteria")
    return graded[digest or min(graded)]
