"""Pages of submitted runs: the form with the problem of each field, a run's output as it comes, Kubeflow's runs."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from rubricworks.platform_api.problems import NotFound, Problem
from rubricworks.platform_api.routers.dependencies import RequestName, Runner, SessionOf, StoreIfAny, Viewer
from rubricworks.platform_api.routers.keyed_route import FormRoute
from rubricworks.platform_api.routers.pages.drawing import PAGE, draw_page
from rubricworks.platform_api.routers.runs import RunName
from rubricworks.platform_api.routers.submissions import (
    KubeflowOf,
    Pipeline,
    RemoteCursor,
    Search,
    SubmissionsOf,
    next_remote_cursor,
    remote_query,
)
from rubricworks.platform_api.schemas.submissions import RemoteState
from rubricworks.platform_api.services.access.principals import Principal
from rubricworks.platform_api.services.submission import submissions
from rubricworks.platform_api.services.submission.kubeflow_runs import STATES, KubeflowUnavailable, state_word
from rubricworks.platform_api.services.submission.remote_run_details import run_details
from rubricworks.platform_api.services.submission.submissions import Submissions
from rubricworks.recipe.files import built_in_recipes

router = APIRouter(include_in_schema=False, route_class=FormRoute)
_FIELDS = ("recipe", "begin", "run", "overrides", "arm", "place")
"""Fields of the form; `begin` is the recipe that it began with."""


@router.get("/new-run")
async def new_run_page(
    request: Request,
    session: SessionOf,
    service: SubmissionsOf,
    runner: Runner,
    recipe: Annotated[str, Query(max_length=100)] = "quickstart",
) -> Response:
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
    return RedirectResponse("/kubeflow-runs" if place == "kubeflow" else f"/submissions/{run}", status_code=303)


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
    query = remote_query(state, pipeline.strip(), search.strip(), cursor, PAGE)
    found = await service.page(query)
    return draw_page(
        request,
        viewer,
        "kubeflow_runs.html",
        runs=found.runs,
        problem=found.problem,
        query=query,
        states=STATES,
        state_word=state_word,
        next_cursor=next_remote_cursor(query, found),
    )


@router.get("/kubeflow-runs/{run}")
async def kubeflow_run_page(
    run: RunName, request: Request, session: SessionOf, service: KubeflowOf, store: StoreIfAny, viewer: Viewer
) -> Response:
    answer = await service.show(run)
    if answer.run is None:
        raise KubeflowUnavailable(answer.problem)
    return draw_page(
        request,
        viewer,
        "kubeflow_run.html",
        run=answer.run,
        problem=answer.problem,
        details=await run_details(session, store, answer.run),
        state_word=state_word,
    )


async def _form(
    request: Request,
    session: SessionOf,
    service: Submissions,
    runner: Principal,
    fields: dict[str, str],
    *,
    problem: Problem | None = None,
) -> Response:
    mistakes: list[dict[str, Any]] = problem.more.get("fields", []) if problem else []
    mistakes = [one | {"input": _input_of(one, fields["overrides"])} for one in mistakes]
    mistakes.sort(key=lambda one: (one["line"] is None, one["line"] or 0))
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
        recent=await submissions.list_submissions(session, before=None, limit=PAGE),
    )


def _input_of(mistake: Mapping[str, Any], overrides: str) -> str:
    """Input of the form that a mistake is in: one without a line of the recipe is of the name, the arm or a change."""
    if mistake["line"] is None:
        if mistake["field"] in ("run", "arm", "overrides"):
            return str(mistake["field"])
        changed = [line.partition("=")[0].strip() for line in overrides.splitlines() if line.strip()]
        if mistake["problem"].startswith("--set ") or any(
            f"{mistake['field']}.".startswith(f"{one}.") for one in changed
        ):
            return "overrides"
    return "recipe"
