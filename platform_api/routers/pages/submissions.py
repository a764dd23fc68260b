"""Pages of submitted runs: the form with the problem of each field, a run's output as it comes, Kubeflow's runs."""

import asyncio
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.ext.asyncio import AsyncSession

from rubricworks.platform_api.db.tables import Run
from rubricworks.platform_api.pagination import PageRequest
from rubricworks.platform_api.problems import NotFound, Problem
from rubricworks.platform_api.routers.dependencies import (
    PAGE,
    KubeflowOf,
    Pipeline,
    RemoteCursor,
    RequestName,
    RunName,
    Runner,
    Search,
    SessionOf,
    StoreIfAny,
    SubmissionsOf,
    Viewer,
)
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.pages.drawing import draw_page
from rubricworks.platform_api.schemas.bodies import JsonObject
from rubricworks.platform_api.schemas.submissions import RemoteState
from rubricworks.platform_api.services import run_comparison, runs
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.submission import submissions
from rubricworks.platform_api.services.submission.kubeflow_runs import STATES, RemoteFilter, show_details, state_word
from rubricworks.platform_api.services.submission.submissions import Submissions
from rubricworks.recipe.files import built_in_recipes
from rubricworks.runs.store import RunStore

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_FIELDS = ("recipe", "begin", "clone", "run", "overrides", "arm", "place")
"""Fields of the form; `begin` is its initial recipe, or `clone` the cloned run."""


@router.get("/new-run")
async def new_run_page(
    request: Request,
    session: SessionOf,
    service: SubmissionsOf,
    runner: Runner,
    store: StoreIfAny,
    recipe: Annotated[str, Query(max_length=100)] = "quickstart",
    clone: Annotated[str, Query(max_length=200, description="Run whose recipe is changed")] = "",
) -> Response:
    if clone:
        return await _form(request, session, service, runner, await _cloned(session, store, clone))
    known = {path.stem: path for path in built_in_recipes()}
    if recipe not in known:
        raise NotFound(f"there is no recipe {recipe!r}; there are {', '.join(known)}")
    fields = dict.fromkeys(_FIELDS, "") | {"recipe": known[recipe].read_text(encoding="utf-8"), "begin": recipe}
    return await _form(request, session, service, runner, fields)


@router.post("/new-run")
async def submit_by_form(
    request: Request, session: SessionOf, service: SubmissionsOf, runner: Runner, name: RequestName
) -> Response:
    sent = parse_qs((await request.body()).decode(errors="replace"))
    fields = {name: sent.get(name, [""])[0] for name in _FIELDS}
    try:
        submission = await service.submit(
            runner,
            fields["recipe"].replace("\r\n", "\n"),
            session=session,
            request=name,
            run=fields["run"].strip() or None,
            overrides=[line.strip() for line in fields["overrides"].splitlines() if line.strip()],
            arm=fields["arm"].strip() or None,
            place=fields["place"] or None,
        )
    except Problem as problem:
        return await _form(request, session, service, runner, fields, problem=problem)
    return RedirectResponse(f"/submissions/{submission.run}", status_code=303)


@router.get("/submissions/{run}")
async def submission_page(
    run: RunName, request: Request, session: SessionOf, service: SubmissionsOf, viewer: Viewer
) -> Response:
    submission = await submissions.get_submission(session, run)
    return draw_page(request, viewer, "submission.html", submission=submission, output=service.output(run))


@router.post("/runs/{run}/stop")
async def stop_by_form(run: RunName, service: SubmissionsOf, runner: Runner, session: SessionOf) -> Response:
    place = await service.stop(runner, run, session)
    is_listed = place == "here" or await session.get(Run, run) is not None
    return RedirectResponse(f"/runs/{run}" if is_listed else f"/kubeflow-runs/{run}", status_code=303)


@router.post("/runs/{run}/resume")
async def resume_by_form(run: RunName, service: SubmissionsOf, runner: Runner, session: SessionOf) -> Response:
    await service.resume_by(runner, run, session)
    return RedirectResponse(f"/runs/{run}", status_code=303)


@router.get("/kubeflow-runs")
async def kubeflow_page(
    request: Request,
    service: KubeflowOf,
    viewer: Viewer,
    state: RemoteState | None = None,
    pipeline: Pipeline = "",
    search: Search = "",
    cursor: RemoteCursor = None,
) -> Response:
    wanted = RemoteFilter(state or "", pipeline.strip(), search.strip())
    runs = await service.list_page(wanted, PageRequest(cursor, PAGE))
    return draw_page(
        request, viewer, "kubeflow_runs.html", runs=runs, query=wanted, states=STATES, state_word=state_word
    )


@router.get("/kubeflow-runs/{run}")
async def kubeflow_run_page(
    run: RunName, request: Request, session: SessionOf, service: KubeflowOf, store: StoreIfAny, viewer: Viewer
) -> Response:
    shown = await show_details(session, store, await service.show(run))
    return draw_page(request, viewer, "kubeflow_run.html", run=shown, state_word=state_word)


async def _cloned(session: AsyncSession, store: RunStore | None, run: str) -> dict[str, str]:
    """Fields of a form that begins with a run's recipe: the text that was submitted, or else the one in its folder."""
    fields = dict.fromkeys(_FIELDS, "")
    submission = await submissions.find_submission(session, run)
    if submission is not None:
        changes = "\n".join(submission.overrides)
        known = {"recipe": submission.recipe, "overrides": changes, "arm": submission.arm or ""}
        return fields | known | {"place": submission.place, "clone": run}
    stored = await runs.get_run(session, run)
    if store is None:
        raise Problem(503, "No runs", f"the recipe of {run} is in the storage, which does not answer; ask again")
    text = await asyncio.to_thread(run_comparison.read_recipe, store, stored.name)
    if not text:
        raise NotFound(f"{run} has no recipe to clone")
    return fields | {"recipe": text, "clone": run}


async def _form(
    request: Request,
    session: SessionOf,
    service: Submissions,
    runner: Principal,
    fields: dict[str, str],
    *,
    problem: Problem | None = None,
) -> Response:
    told = problem.more.get("fields", []) if problem else []
    mistakes = [mistake | {"input": _input_of(mistake, fields["overrides"])} for mistake in told]
    mistakes.sort(key=lambda mistake: (mistake["line"] is None, mistake["line"] or 0))
    return draw_page(
        request,
        runner,
        "new_run.html",
        status=problem.status if problem else 200,
        recipes=[path.stem for path in built_in_recipes()],
        fields=fields,
        places=service.places,
        mistakes=mistakes,
        problem=problem.detail if problem and not mistakes else "",
        recent=(await submissions.list_submissions(session, PageRequest(limit=PAGE))).items,
    )


def _input_of(mistake: JsonObject, overrides: str) -> str:
    """Input of the form that a mistake is in: one without a line of the recipe is of the name, the arm or a change."""
    if mistake["line"] is None:
        if mistake["field"] in ("run", "arm", "overrides"):
            return str(mistake["field"])
        changed = [line.partition("=")[0].strip() for line in overrides.splitlines() if line.strip()]
        if mistake["problem"].startswith("--set ") or any(
            f"{mistake['field']}.".startswith(f"{field}.") for field in changed
        ):
            return "overrides"
    return "recipe"
