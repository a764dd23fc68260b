"""Runs on Kubeflow: started from a version, found by name or id, stopped, and taken up where they failed.

A run's name there is its folder's name, so that `runs show` finds it by what `run` said. One that failed is retried in
place: Kubeflow starts the stages that did not end well, and each goes on from what it had committed.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import Kubeflow
from rubricworks.kubeflow.versions import PipelineVersion
from rubricworks.recipe import DEFAULT_METHOD

GOING = frozenset({"PENDING", "RUNNING", "CANCELING", "PAUSED"})
ENDED_BADLY = frozenset({"FAILED", "CANCELED"})

_PAGE = 100


class StageState(BaseModel):
    """A stage of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    state: str
    started: datetime | None = None
    ended: datetime | None = None
    error: str = ""
    """What Kubeflow says of it; what the stage itself said is in the run's error.json."""


class RemoteRun(BaseModel):
    """A run that Kubeflow knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    """Of its folder, too."""
    state: str
    uri: str = ""
    """Of its folder."""
    pipeline: str = ""
    """The recipe's, as far as the run's arguments tell."""
    created: datetime | None = None
    ended: datetime | None = None
    schedule: str = ""
    """The id of the schedule that started it."""
    error: str = ""
    stages: tuple[StageState, ...] = ()
    """In the order in which they began; told where one run is asked for."""
    page: str
    """Where people look at it."""


def start_run(
    kubeflow: Kubeflow,
    version: PipelineVersion,
    name: str,
    arguments: Mapping[str, str],
    *,
    experiment: str,
    service_account: str | None = None,
    pipeline_root: str | None = None,
) -> RemoteRun:
    """Start a version with these arguments.

    Args:
        name: of the run.
        experiment: what runs of one purpose stand under; made if it is new.
    """
    group = experiment_id(kubeflow, experiment)
    with kubeflow.asked(f"start run {name}") as client:
        made = client.run_pipeline(
            group,
            name,
            params=dict(arguments),
            pipeline_id=version.pipeline_id,
            version_id=version.version_id,
            pipeline_root=pipeline_root,
            service_account=service_account,
        )
    return _run(kubeflow, made)


def experiment_id(kubeflow: Kubeflow, name: str) -> str:
    """Id of the experiment of that name, which is created if it is new."""
    with kubeflow.asked(f"open experiment {name}") as client:
        return str(client.create_experiment(name, namespace=kubeflow.namespace).experiment_id)


def list_runs(kubeflow: Kubeflow, *, limit: int = 20, name: str = "") -> list[RemoteRun]:
    """The newest runs of the namespace, the newest first.

    Args:
        name: only those of this name.
    """
    found: list[RemoteRun] = []
    for run in _runs(kubeflow, sort_by="created_at desc", key="display_name" if name else "", value=name):
        found.append(_run(kubeflow, run))
        if len(found) == limit:
            break
    return found


def show_run(kubeflow: Kubeflow, run: str) -> RemoteRun:
    """A run with its stages.

    Args:
        run: its name, or the id that Kubeflow gave it.
    Raises:
        UserError: there is none, or several have the name.
    """
    run_id = _found(kubeflow, run)
    with kubeflow.asked(f"show run {run}") as client:
        return _run(kubeflow, client.get_run(run_id))


def stop_run(kubeflow: Kubeflow, run: str) -> RemoteRun:
    """Stop a run; what its stages committed is kept, and `retry_run` goes on from there."""
    there = show_run(kubeflow, run)
    if there.state not in GOING:
        raise UserError(f"run {there.name} is not going: it is {there.state}; there is nothing to stop")
    with kubeflow.asked(f"stop run {there.name}") as client:
        client.terminate_run(there.id)
    return show_run(kubeflow, there.id)


def retry_run(kubeflow: Kubeflow, run: str) -> RemoteRun:
    """Start the stages again that did not end well; those that did are not run again."""
    there = show_run(kubeflow, run)
    if there.state not in ENDED_BADLY:
        raise UserError(f"run {there.name} is {there.state}; only one that failed or was stopped is retried")
    with kubeflow.asked(f"retry run {there.name}") as client:
        client.runs.run_service_retry_run(there.id)
    return show_run(kubeflow, there.id)


def _found(kubeflow: Kubeflow, run: str) -> str:
    """The id of a run given by name or id; an id is never taken for a name."""
    named = [one for one in _runs(kubeflow, key="display_name", value=run)]
    named = named or [one for one in _runs(kubeflow, key="run_id", value=run)]
    if not named:
        raise UserError(f"no run {run!r} at {kubeflow.url}; `rubricworks runs list --on kubeflow` shows them")
    if len(named) > 1:
        ids = ", ".join(str(one.run_id) for one in named[:5])
        raise UserError(f"{len(named)} runs are named {run!r}; give the id of one: {ids}")
    return str(named[0].run_id)


def _runs(kubeflow: Kubeflow, *, sort_by: str = "", key: str = "", value: str = "") -> Iterator[Any]:
    """Page by page; archived ones are left out, as on Kubeflow's pages."""
    predicates = [{"operation": "NOT_EQUALS", "key": "storage_state", "stringValue": "ARCHIVED"}]
    if key:
        predicates.append({"operation": "EQUALS", "key": key, "stringValue": value})
    wanted, token = json.dumps({"predicates": predicates}), ""
    while True:
        with kubeflow.asked("list runs") as client:
            page = client.list_runs(token, _PAGE, sort_by, namespace=kubeflow.namespace, filter=wanted)
        yield from page.runs or []
        token = page.next_page_token or ""
        if not token:
            return


def _run(kubeflow: Kubeflow, told: Any) -> RemoteRun:
    parameters = (told.runtime_config and told.runtime_config.parameters) or {}
    details = told.run_details.task_details if told.run_details else None
    return RemoteRun(
        id=told.run_id,
        name=told.display_name or told.run_id,
        state=told.state or "PENDING",
        uri=str(parameters.get("run") or "").replace("${KUBEFLOW_RUN_ID}", told.run_id),
        pipeline=_pipeline(parameters),
        created=told.created_at,
        ended=_time(told.finished_at),
        schedule=told.recurring_run_id or "",
        error=_line(told.error),
        stages=tuple(_stages(details or [])),
        page=kubeflow.run_page(told.run_id),
    )


def _pipeline(parameters: Mapping[str, Any]) -> str:
    """Pipeline of the recipe in the arguments of the run's first task; empty for a run of other software."""
    try:
        recipe = yaml.safe_load(json.loads(parameters["preflight_config"])["recipe"])
        return str(recipe.get("pipeline", DEFAULT_METHOD))
    except (KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError):
        return ""


def _stages(details: list[Any]) -> list[StageState]:
    """The tasks that are stages: not the drivers that Kubeflow puts before each, nor the groups that hold them."""
    groups = {task.parent_task_id for task in details}
    stages = [
        StageState(
            stage=task.display_name.replace("-", "_"),
            state=task.state or "PENDING",
            started=_time(task.start_time),
            ended=_time(task.end_time),
            error=_line(task.error),
        )
        for task in details
        if task.display_name and task.task_id not in groups and not task.display_name.endswith("driver")
    ]
    return sorted(stages, key=lambda stage: (stage.started is None, stage.started or datetime.min))


def _time(told: datetime | None) -> datetime | None:
    """Kubeflow says 1970 where it means that it does not know."""
    return told if told is not None and told.year > 1970 else None


def _line(error: Any) -> str:
    return " ".join(str(error.message or "").split())[:300] if error else ""
