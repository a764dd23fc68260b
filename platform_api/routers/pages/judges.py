"""Page of two judges: their verdicts on the same response without their names, and whose are right."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.routers.dependencies import Runner, SessionOf, StoreOf
from rubricworks.platform_api.routers.judge_preferences import Reveal
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.labels import OtherRuns
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.routers.pages.forms import form_fields
from rubricworks.platform_api.routers.runs import RunName
from rubricworks.platform_api.services import runs
from rubricworks.platform_api.services.blind_choices import choice_of
from rubricworks.platform_api.services.judges import judge_preferences
from rubricworks.platform_api.services.samples import find_sample

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_MOST_RUNS = 50
_SIDES = {"left": "A", "right": "B", "both": "both", "neither": "neither"}
_WHOLE = "scorecard"
Judge = Annotated[str, Query(max_length=300)]


@router.get("/runs/{run}/compare-judges")
async def compare_judges_page(
    runner: Runner,
    run: RunName,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    first: Judge = "",
    second: Judge = "",
    others: OtherRuns = [],  # noqa: B006
    reveal: Reveal = False,
) -> Response:
    record = await runs.get_run(session, run)
    others = [one for one in others if one]
    judges = list(await judge_preferences.judges_of_runs(session, store, [run, *others]))
    chosen_pair = (first, second) if first or second else None
    if chosen_pair is None:
        first, second = await judge_preferences.first_common_pair(session, store, run, judges) or ("", "")
    left = first or next(iter(judges), "")
    right = second or next((one for one in judges if one != left), left)
    pair = await judge_preferences.find_pair(session, store, run, left, right) if left != right else None
    judged = await judge_preferences.next_response(session, run, pair, runner.name) if pair else None
    mine, result = (
        await judge_preferences.standing_for(session, run, pair, runner.name, reveal=reveal) if pair else (0, None)
    )
    return draw_page(
        request,
        runner,
        "compare_judges.html",
        run=record,
        judges=judges,
        first=left,
        second=right,
        chosen=others[0] if others else "",
        others=await judge_preferences.runs_with_verdicts(session, but=run, limit=_MOST_RUNS),
        judged=judged,
        common=await judge_preferences.count_common(pair) if pair else 0,
        source=pair.first if pair else None,
        sample=await find_sample(session, store, pair.first.table.run, judged.sample_id) if pair and judged else None,
        no_pair=chosen_pair is None and not first,
        sides=_SIDES,
        mine=mine,
        needed=judge_preferences.ENOUGH,
        result=result,
    )


@router.post("/runs/{run}/compare-judges")
async def choose_by_form(
    runner: Runner, run: RunName, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    await runs.get_run(session, run)
    fields = await form_fields(request)
    first, second, other = (fields.get(name, "") for name in ("first", "second", "with"))
    pair = await judge_preferences.find_pair(session, store, run, first, second)
    judged = judge_preferences.response_of(pair, fields.get("response", ""), runner.name)
    asked = {
        **{f"criterion-{number}": one.criterion for number, one in enumerate(judged.criteria)},
        _WHOLE: judge_preferences.WHOLE,
    }
    choices = {
        criterion: choice_of(fields[name], judged.is_swapped)
        for name, criterion in asked.items()
        if fields.get(name) in _SIDES
    }
    if not choices:
        raise BadRequest("choose A, B, both or neither for at least one criterion, or for the whole scorecard")
    await judge_preferences.choose(session, runner, run, pair, judged.sample_id, judged.response, choices)
    query = {"first": first, "second": second} | ({"with": other} if other else {})
    target = request.url_for("compare_judges_page", run=run).include_query_params(**query)
    return RedirectResponse(f"{target.path}?{target.query}", status_code=303)
