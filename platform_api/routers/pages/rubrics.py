"""Pages of rubric sets: browse, compare versions, edit, review."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.pagination import PageRequest, list_page
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.routers.dependencies import (
    PAGE,
    Approver,
    DrawnPageOf,
    Number,
    Runner,
    SampleId,
    SessionOf,
    SetBefore,
    SetOf,
    StoreOf,
    VersionBefore,
    VersionNumber,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute, form_fields, whole_number
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.schemas.bodies import JsonObject
from rubricworks.platform_api.services import rollouts, runs
from rubricworks.platform_api.services.access.principals import Principal, Right, waives_for_rubrics
from rubricworks.platform_api.services.rubrics import rubric_comparison, rubric_sets, rubric_versions
from rubricworks.platform_api.services.samples import file_names
from rubricworks.rubrics import Rubric

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_EDITED = ("criterion", "description", "evaluation_rule", "weight", "reference")
_BLANK = dict.fromkeys(_EDITED, "") | {"weight": "1"}
_MOST_CRITERIA = 100
_MOST_SETS = 200


@router.get("/rubrics")
async def rubric_sets_page(request: Request, session: SessionOf, viewer: Viewer, asked: DrawnPageOf) -> Response:
    waiting = await rubric_versions.list_versions(session, PageRequest(limit=PAGE), state="proposed")
    sets = await rubric_sets.list_sets(session, asked)
    return draw_page(request, viewer, "rubric_sets.html", sets=sets, waiting=waiting.items)


@router.get("/runs/{run}/rubrics/{stage}")
async def rubric_set_page(
    rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer, asked: DrawnPageOf
) -> Response:
    criteria = await rubric_sets.list_criteria(session, store, rubric_set)
    entries = await rubric_sets.list_entries(session, store, rubric_set, asked)
    return draw_page(
        request,
        viewer,
        "rubric_set.html",
        table=rubric_set,
        entries=entries,
        file_names=await file_names(session, rubric_set.run, [entry.sample_id for entry in entries.items]),
        criteria=len(criteria),
        states=Counter(criterion.state for criterion in criteria),
        others=await _other_sets(session, rubric_set),
    )


@router.get("/runs/{run}/rubrics/{stage}/compare")
async def rubric_sets_diff_page(
    rubric_set: SetOf,
    before: SetBefore,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    asked: DrawnPageOf,
) -> Response:
    changes = await rubric_comparison.compare_sets(session, store, before, rubric_set)
    samples = list_page(changes, asked)
    return draw_page(
        request,
        viewer,
        "rubric_sets_diff.html",
        file_names=await file_names(session, rubric_set.run, [change.sample_id for change in samples.items]),
        table=rubric_set,
        before=before,
        others=await _other_sets(session, rubric_set),
        samples=samples,
        counts=Counter(change.change for change in changes),
    )


@router.get("/runs/{run}/rubrics/{stage}/criteria")
async def rubric_criteria_page(
    rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer, asked: DrawnPageOf
) -> Response:
    criteria = await rubric_sets.list_criteria(session, store, rubric_set)
    return draw_page(
        request,
        viewer,
        "rubric_criteria.html",
        table=rubric_set,
        criteria=list_page(criteria, asked),
        count=len(criteria),
        trained=await rollouts.stages_with_rollouts(session, rubric_set.run),
    )


@router.get("/runs/{run}/rubrics/{stage}/{sample_id}")
async def rubric_page(
    sample_id: SampleId,
    rubric_set: SetOf,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    version: VersionNumber = None,
) -> Response:
    waived = request.app.state.settings.self_approval
    return draw_page(
        request,
        viewer,
        "rubric.html",
        table=rubric_set,
        shown=await rubric_versions.show_rubric(session, store, rubric_set, sample_id, version),
        file_names=await file_names(session, rubric_set.run, [sample_id]),
        trained=await rollouts.stages_with_rollouts(session, rubric_set.run),
        may_edit=viewer.may(Right.RUN),
        may_review=viewer.may(Right.APPROVE),
        waives_second_person=waives_for_rubrics(waived, rubric_set.run, rubric_set.path),
    )


@router.get("/runs/{run}/rubrics/{stage}/{sample_id}/diff")
async def rubric_diff_page(
    sample_id: SampleId,
    rubric_set: SetOf,
    set_before: SetBefore,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    before: VersionBefore = None,
    after: VersionNumber = None,
) -> Response:
    sides = (set_before, before), (rubric_set, after)
    versions = [await rubric_versions.versions_of(session, table, sample_id) for table, _ in sides]
    return draw_page(
        request,
        viewer,
        "rubric_diff.html",
        table=rubric_set,
        table_before=set_before if set_before is not rubric_set else None,
        sample_id=sample_id,
        file_names=await file_names(session, rubric_set.run, [sample_id]),
        diff=await rubric_comparison.compare_versions(session, store, sample_id, *sides),
        numbers=[[rubric_sets.FIRST, *(version.number for version in of_side)] for of_side in versions],
    )


@router.get("/runs/{run}/rubrics/{stage}/{sample_id}/edit")
async def rubric_form(
    runner: Runner, sample_id: SampleId, rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    number, rubric = await rubric_versions.rubric_of(session, store, rubric_set, sample_id)
    rows = [_form_row(criterion.model_dump()) for criterion in rubric.criteria]
    return _draw_form(request, runner, rubric_set, sample_id, number, [*rows, _blank()])


@router.post("/runs/{run}/rubrics/{stage}/{sample_id}/edit")
async def propose_by_form(
    runner: Runner, sample_id: SampleId, rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    fields = await form_fields(request)
    replaces = whole_number(fields, "replaces")
    _, before = await rubric_versions.rubric_of(session, store, rubric_set, sample_id, replaces)
    rows = _sent_rows(fields)
    criteria = [
        (place, _criterion(row, before, place))
        for place, row in enumerate(rows)
        if not row["remove"] and (place < len(before.criteria) or row["criterion"])
    ]
    reason = fields.get("reason", "")[:2000]
    problems: dict[str, str] = {} if reason else {"reason": "say why the rubric is better so"}
    try:
        rubric = Rubric.model_validate({"criteria": [criterion for _, criterion in criteria]})
    except ValidationError as error:
        problems |= _form_mistakes(error, [place for place, _ in criteria])
    if problems:
        return _draw_form(request, runner, rubric_set, sample_id, replaces, rows, problems, reason)
    await rubric_versions.propose(
        session, store, runner, rubric_set, sample_id, rubric, replaces=replaces, reason=reason
    )
    return RedirectResponse(request.url.path.removesuffix("/edit"), status_code=303)


@router.post("/rubric-versions/{number}/approve")
async def approve_by_form(number: Number, request: Request, session: SessionOf, approver: Approver) -> Response:
    return await _review(number, request, session, approver, "approved")


@router.post("/rubric-versions/{number}/reject")
async def reject_by_form(number: Number, request: Request, session: SessionOf, approver: Approver) -> Response:
    return await _review(number, request, session, approver, "rejected")


async def _other_sets(session: AsyncSession, rubric_set: RunTable) -> list[str]:
    """Names of the sets that one can be compared with, the last written first."""
    sets = await runs.list_tables(session, rubric_sets.KIND, limit=_MOST_SETS)
    return [f"{table.run}/{table.path}" for table in sets if table is not rubric_set and "/" not in table.path]


async def _review(number: int, request: Request, session: AsyncSession, approver: Principal, decision: str) -> Response:
    reason = (await form_fields(request)).get("reason", "")[:2000]
    waived = request.app.state.settings.self_approval
    version = await rubric_versions.review(session, approver, number, decision, reason, self_approval=waived)
    target = request.url_for("rubric_page", run=version.run, stage=version.stage, sample_id=version.sample_id)
    return RedirectResponse(target.path, status_code=303)


def _draw_form(
    request: Request,
    caller: Principal,
    table: RunTable,
    sample_id: str,
    replaces: int,
    rows: Sequence[JsonObject],
    problems: dict[str, str] | None = None,
    reason: str = "",
) -> Response:
    return draw_page(
        request,
        caller,
        "rubric_form.html",
        status=422 if problems else 200,
        table=table,
        sample_id=sample_id,
        replaces=replaces,
        rows=rows,
        problems=problems or {},
        reason=reason,
    )


def _form_row(criterion: JsonObject) -> JsonObject:
    row = {name: criterion[name] for name in _EDITED}
    return {**row, "weight": f"{criterion['weight']:g}", "essential": criterion["essential"], "remove": False}


def _blank() -> JsonObject:
    return {**_BLANK, "essential": True, "remove": False}


def _sent_rows(fields: dict[str, str]) -> list[JsonObject]:
    count = whole_number(fields, "count")
    if count > _MOST_CRITERIA:
        raise BadRequest(f"count: a rubric that is edited here has at most {_MOST_CRITERIA} criteria")
    return [
        {name: fields.get(f"{place}-{name}", "") for name in _EDITED}
        | {name: f"{place}-{name}" in fields for name in ("essential", "remove")}
        for place in range(count)
    ]


def _criterion(row: JsonObject, before: Rubric, place: int) -> JsonObject:
    """A criterion of the form; what the form does not show stays as it was."""
    known = before.criteria[place].model_dump() if place < len(before.criteria) else {}
    return {**known, **{name: row[name] for name in (*_EDITED, "essential")}}


def _form_mistakes(error: ValidationError, places: Sequence[int]) -> dict[str, str]:
    """Field of the form, `2-weight` → what is wrong with it and what to write.

    Args:
        places: place in the form of each criterion that was validated.
    """
    mistakes = {}
    for mistake in error.errors():
        match mistake["loc"]:
            case ("criteria", int(number), str(field), *_):
                mistakes[f"{places[number]}-{field}"] = _explain(mistake)
            case _:
                mistakes["rubric"] = _explain(mistake)  # no single field has it
    return mistakes


def _explain(mistake: Any) -> str:
    given = mistake["input"]
    match mistake["type"]:
        case "float_parsing" | "float_type" | "finite_number":
            what = f"{given!r} is no number" if given else "there is no number"
            return f"{what}; write one such as 2, or -1 for a pitfall"
        case "string_too_short":
            return "is empty; say what is to be checked, or remove the criterion"
        case "string_too_long":
            return f"has {len(given):,} characters; shorten it to {mistake['ctx']['max_length']:,}"
        case "too_short":
            return "no criterion is left; a rubric needs at least one"
        case _:  # a check of the rubric's own
            return str(mistake["msg"]).removeprefix("Value error, ")
