"""Pages of rubric sets: browse, compare versions, edit, review."""

from collections import Counter
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.cursors import encode_cursor, row_cursor
from rubricworks.platform_api.db.tables import RunTable
from rubricworks.platform_api.problems import BadRequest
from rubricworks.platform_api.routers.dependencies import Approver, Cursor, Runner, SessionOf, StoreOf, Viewer
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.pages.forms import form_fields
from rubricworks.platform_api.routers.promotions import Number
from rubricworks.platform_api.routers.rollouts import SampleId
from rubricworks.platform_api.routers.rubrics import (
    SetBefore,
    SetOf,
    VersionBefore,
    VersionNumber,
    default_before,
    next_table,
    table_cursor,
)
from rubricworks.platform_api.services import rollouts, run_tables
from rubricworks.platform_api.services.access.principals import Right
from rubricworks.platform_api.services.access.self_approval import waives_for_rubrics
from rubricworks.platform_api.services.rubrics import rubric_comparison, rubric_sets, rubric_versions
from rubricworks.platform_api.services.rubrics.rubric_mistakes import form_mistakes
from rubricworks.rubrics import Rubric

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_EDITED = ("criterion", "description", "evaluation_rule", "weight", "reference")
_BLANK = dict.fromkeys(_EDITED, "") | {"weight": "1"}
_MOST_CRITERIA = 100
_MOST_SETS = 200


@router.get("/rubrics")
async def rubric_sets_page(request: Request, session: SessionOf, viewer: Viewer, cursor: Cursor = None) -> Response:
    found = await run_tables.list_tables(session, rubric_sets.KIND, before=table_cursor(cursor), limit=PAGE + 1)
    waiting = await rubric_versions.list_versions(session, state="proposed", run=None, before=None, limit=PAGE)
    return draw_page(
        request,
        viewer,
        "rubric_sets.html",
        sets=found[:PAGE],
        waiting=waiting,
        next_cursor=next_table(found, PAGE),
    )


@router.get("/runs/{run}/rubrics/{stage}")
async def rubric_set_page(
    rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer, cursor: Cursor = None
) -> Response:
    start = row_cursor(cursor)
    criteria = await rubric_sets.list_criteria(session, store, rubric_set)
    return draw_page(
        request,
        viewer,
        "rubric_set.html",
        table=rubric_set,
        entries=await rubric_sets.list_entries(session, store, rubric_set, start, PAGE),
        criteria=len(criteria),
        states={state: sum(one.state == state for one in criteria) for state in ("always", "never", "not graded")},
        others=await _other_sets(session, rubric_set),
        next_cursor=encode_cursor(start + PAGE) if start + PAGE < rubric_set.rows else None,
    )


@router.get("/runs/{run}/rubrics/{stage}/compare")
async def rubric_sets_diff_page(
    rubric_set: SetOf,
    before: SetBefore,
    request: Request,
    session: SessionOf,
    store: StoreOf,
    viewer: Viewer,
    cursor: Cursor = None,
) -> Response:
    start = row_cursor(cursor)
    samples = await rubric_comparison.compare_sets(session, store, before, rubric_set)
    return draw_page(
        request,
        viewer,
        "rubric_sets_diff.html",
        table=rubric_set,
        before=before,
        others=await _other_sets(session, rubric_set),
        samples=samples[start : start + PAGE],
        counts=Counter(one.change for one in samples),
        next_cursor=encode_cursor(start + PAGE) if start + PAGE < len(samples) else None,
    )


@router.get("/runs/{run}/rubrics/{stage}/criteria")
async def rubric_criteria_page(
    rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf, viewer: Viewer, cursor: Cursor = None
) -> Response:
    start = row_cursor(cursor)
    criteria = await rubric_sets.list_criteria(session, store, rubric_set)
    trained = await rollouts.stages_with_rollouts(session, rubric_set.run)
    return draw_page(
        request,
        viewer,
        "rubric_criteria.html",
        table=rubric_set,
        criteria=criteria[start : start + PAGE],
        count=len(criteria),
        trained=trained,
        next_cursor=encode_cursor(start + PAGE) if start + PAGE < len(criteria) else None,
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
    number, rubric = await rubric_versions.rubric_of(session, store, rubric_set, sample_id, version)
    _, origin = await rubric_sets.stage_rubric(store, rubric_set, sample_id)
    versions = await rubric_versions.versions_of(session, rubric_set, sample_id)
    return draw_page(
        request,
        viewer,
        "rubric.html",
        table=rubric_set,
        sample_id=sample_id,
        number=number,
        rubric=rubric,
        origin=origin,
        versions=versions,
        standing=rubric_versions.standing_version(versions),
        trained=await rollouts.stages_with_rollouts(session, rubric_set.run),
        may_edit=viewer.may(Right.RUN),
        may_review=viewer.may(Right.APPROVE),
        waives_second_person=waives_for_rubrics(
            request.app.state.settings.self_approval, rubric_set.run, rubric_set.path
        ),
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
    number = before or default_before(set_before, rubric_set)
    first, old = await rubric_versions.rubric_of(session, store, set_before, sample_id, number)
    second, new = await rubric_versions.rubric_of(session, store, rubric_set, sample_id, after)
    numbers = [
        [rubric_sets.FIRST, *(one.number for one in await rubric_versions.versions_of(session, table, sample_id))]
        for table in (set_before, rubric_set)
    ]
    return draw_page(
        request,
        viewer,
        "rubric_diff.html",
        table=rubric_set,
        table_before=set_before if set_before is not rubric_set else None,
        sample_id=sample_id,
        before=first,
        after=second,
        numbers=numbers,
        changes=rubric_comparison.compare(old, new),
    )


@router.get("/runs/{run}/rubrics/{stage}/{sample_id}/edit")
async def rubric_form(
    runner: Runner, sample_id: SampleId, rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    number, rubric = await rubric_versions.rubric_of(session, store, rubric_set, sample_id)
    rows = [_form_row(one.model_dump()) for one in rubric.criteria]
    return _draw_form(request, runner, rubric_set, sample_id, number, [*rows, _blank()])


@router.post("/runs/{run}/rubrics/{stage}/{sample_id}/edit")
async def propose_by_form(
    runner: Runner, sample_id: SampleId, rubric_set: SetOf, request: Request, session: SessionOf, store: StoreOf
) -> Response:
    fields = await form_fields(request)
    replaces = _whole(fields, "replaces")
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
        rubric = Rubric.model_validate({"criteria": [one for _, one in criteria]})
    except ValidationError as error:
        problems |= form_mistakes(error, [place for place, _ in criteria])
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
    sets = await run_tables.list_tables(session, rubric_sets.KIND, limit=_MOST_SETS)
    return [f"{one.run}/{one.path}" for one in sets if one is not rubric_set and "/" not in one.path]


async def _review(number: int, request: Request, session: Any, approver: Any, decision: str) -> Response:
    reason = (await form_fields(request)).get("reason", "")[:2000]
    waived = request.app.state.settings.self_approval
    version = await rubric_versions.review(session, approver, number, decision, reason, self_approval=waived)
    target = request.url_for("rubric_page", run=version.run, stage=version.stage, sample_id=version.sample_id)
    return RedirectResponse(target.path, status_code=303)


def _draw_form(
    request: Request,
    caller: Any,
    table: RunTable,
    sample_id: str,
    replaces: int,
    rows: list[dict[str, Any]],
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


def _form_row(criterion: dict[str, Any]) -> dict[str, Any]:
    row = {name: criterion[name] for name in _EDITED}
    return {**row, "weight": f"{criterion['weight']:g}", "essential": criterion["essential"], "remove": False}


def _blank() -> dict[str, Any]:
    return {**_BLANK, "essential": True, "remove": False}


def _sent_rows(fields: dict[str, str]) -> list[dict[str, Any]]:
    count = _whole(fields, "count")
    if count > _MOST_CRITERIA:
        raise BadRequest(f"count: a rubric that is edited here has at most {_MOST_CRITERIA} criteria")
    return [
        {name: fields.get(f"{place}-{name}", "") for name in _EDITED}
        | {name: f"{place}-{name}" in fields for name in ("essential", "remove")}
        for place in range(count)
    ]


def _criterion(row: dict[str, Any], before: Rubric, place: int) -> dict[str, Any]:
    """A criterion of the form; what the form does not show stays as it was."""
    known = before.criteria[place].model_dump() if place < len(before.criteria) else {}
    return {**known, **{name: row[name] for name in (*_EDITED, "essential")}}


def _whole(fields: dict[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"{name}: {text[:20]!r} is no number")
    return int(text)
