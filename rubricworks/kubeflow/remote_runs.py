"""Runs on Kubeflow: start, list, show, stop and retry.

A run's name on Kubeflow is its folder's name, the one that `run` prints and `runs show` takes. A failed run is retried
in place: Kubeflow starts the stages that did not succeed, and each resumes from what it has committed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import Kubeflow
from rubricworks.kubeflow.versions import PipelineVersion, find_pipeline
from rubricworks.recipe import DEFAULT_METHOD
from rubricworks.redaction import foreign_line
from rubricworks.runtime.config import without_emoji
from rubricworks.runtime.run_uri import resolve_run_id
from rubricworks.strict_yaml import parse_yaml

ACTIVE_STATES = frozenset({"PENDING", "RUNNING", "CANCELING", "PAUSED"})
FAILURE_STATES = frozenset({"FAILED", "CANCELED"})

_PAGE = 100
_NO_TASK = re.compile(
    r"root|executor(\(\d+\))?|.*driver|(exit-handler|condition|condition-branches|for-loop|parallel-for|iteration|"
    r"iteration-item)(-\d+)+"
)
"""Names of Argo's nodes that are no task of a pipeline: Kubeflow's drivers, groups, and the pod inside each task."""
_STAGE_POD = "system-container-impl-"
"""Part of the name of a pod that runs a task's own code."""


class UnknownRun(UserError):
    """No run has the name or id that was given, or several have the name."""


class StageState(BaseModel):
    """A stage of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    state: str
    started: datetime | None = None
    ended: datetime | None = None
    error: str = ""
    """Kubeflow's message; the stage's own message is in the run's error.json."""
    log: str = ""
    """URL of its pod's log; empty if it has none, or Kubeflow does not name the pod."""


class RemoteRun(BaseModel):
    """A run on Kubeflow."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    """Name of the run and of its folder."""
    state: str
    uri: str = ""
    """URI of its folder."""
    pipeline: str = ""
    """Pipeline of the recipe in the run's arguments; empty if there is none."""
    created: datetime | None = None
    ended: datetime | None = None
    schedule: str = ""
    """Id of the schedule that started it."""
    error: str = ""
    stages: tuple[StageState, ...] = ()
    """Stages in order of their start; filled by `show_run`, not by `list_runs`."""
    page: str
    """URL of its web page."""


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
    """Start a run of a version with these arguments.

    Args:
        name: name of the run.
        experiment: Kubeflow experiment of the run; created if it is new.
    """
    group = experiment_id(kubeflow, experiment)
    with kubeflow.request(f"start run {name}") as client:
        response = client.run_pipeline(
            group,
            name,
            params=dict(arguments),
            pipeline_id=version.pipeline_id,
            version_id=version.version_id,
            pipeline_root=pipeline_root,
            service_account=service_account,
        )
    return _run(kubeflow, response)


def experiment_id(kubeflow: Kubeflow, name: str) -> str:
    """Return the id of the experiment of that name, creating it if it is new."""
    name = without_emoji(name)
    with kubeflow.request(f"open experiment {name}") as client:
        return str(client.create_experiment(name, namespace=kubeflow.namespace).experiment_id)


def list_runs(kubeflow: Kubeflow, *, limit: int = 20, name: str = "") -> list[RemoteRun]:
    """List the newest runs of the namespace, newest first.

    Args:
        name: only runs of this name.
    """
    runs = _runs(kubeflow, sort_by="created_at desc", key="display_name" if name else "", value=name)
    with kubeflow.reading("list runs"):
        return [_run(kubeflow, run) for run in islice(runs, limit)]


class RemotePage(NamedTuple):
    """Some runs, the newest first, and Kubeflow's token for those after them; empty if there are none."""

    runs: list[RemoteRun]
    token: str


def list_page(
    kubeflow: Kubeflow,
    *,
    limit: int,
    token: str = "",
    states: Sequence[str] = (),
    pipeline: str = "",
    name_part: str = "",
) -> RemotePage:
    """List one page of the namespace's runs, which Kubeflow filters.

    Args:
        limit: runs at most; Kubeflow gives 200 at most.
        token: token of the page before, which holds its filter.
        states: states of Kubeflow's, any of which a run may have.
        pipeline: name of a pipeline.
        name_part: part of the run's name, in small or capital letters.
    """
    predicates: list[dict[str, object]] = []
    if states:
        predicates.append({"operation": "IN", "key": "state", "string_values": {"values": [*states]}})
    if name_part:
        predicates.append({"operation": "IS_SUBSTRING", "key": "display_name", "string_value": name_part})
    if pipeline and not token:
        pipeline_id = find_pipeline(kubeflow, pipeline)
        if pipeline_id is None:
            return RemotePage([], "")
        predicates.append({"operation": "EQUALS", "key": "pipeline_id", "string_value": pipeline_id})
    # A token comes alone: Kubeflow compares its filter to one sent with it, and takes equal lists for different ones.
    query = {"page_token": token} if token else {"sort_by": "created_at desc", "filter": _filter(predicates)}
    with kubeflow.reading("list runs") as client:
        page = client.list_runs(page_size=limit, namespace=kubeflow.namespace, **query)
        runs = [_run(kubeflow, run) for run in page.runs or []]
    # Kubeflow takes % and _ for any letters.
    return RemotePage([run for run in runs if name_part.lower() in run.name.lower()], page.next_page_token or "")


def show_run(kubeflow: Kubeflow, run: str) -> RemoteRun:
    """Read a run with its stages.

    Args:
        run: its name or Kubeflow's id.
    Raises:
        UnknownRun: there is none, or several have the name.
    """
    run_id = _run_id(kubeflow, run)
    with kubeflow.reading(f"show run {run}") as client:
        return _run(kubeflow, client.get_run(run_id))


def stop_run(kubeflow: Kubeflow, run: str) -> RemoteRun:
    """Stop a run; its stages' committed work stays, and `retry_run` resumes from it."""
    current = show_run(kubeflow, run)
    if current.state not in ACTIVE_STATES:
        raise UserError(f"run {current.name} is not going: it is {current.state}; there is nothing to stop")
    with kubeflow.request(f"stop run {current.name}") as client:
        client.terminate_run(current.id)
    return show_run(kubeflow, current.id)


def retry_run(kubeflow: Kubeflow, run: str) -> RemoteRun:
    """Run the stages again that did not succeed."""
    current = show_run(kubeflow, run)
    if current.state not in FAILURE_STATES:
        raise UserError(f"run {current.name} is {current.state}; only one that failed or was stopped is retried")
    with kubeflow.request(f"retry run {current.name}") as client:
        client.runs.run_service_retry_run(current.id)
    return show_run(kubeflow, current.id)


def _run_id(kubeflow: Kubeflow, run: str) -> str:
    """Kubeflow's id of a run given by name or id; names are searched first."""
    matches = list(_runs(kubeflow, key="display_name", value=run)) or list(_runs(kubeflow, key="run_id", value=run))
    if not matches:
        raise UnknownRun(f"no run {run!r} at {kubeflow.url}; `rubricworks runs list --on kubeflow` shows them")
    if len(matches) > 1:
        ids = ", ".join(str(match.run_id) for match in matches[:5])
        raise UnknownRun(f"{len(matches)} runs are named {run!r}; give the id of one: {ids}")
    return str(matches[0].run_id)


def _runs(kubeflow: Kubeflow, *, sort_by: str = "", key: str = "", value: str = "") -> Iterator[Any]:
    """Iterate over the runs page by page, without archived ones."""
    run_filter = _filter([{"operation": "EQUALS", "key": key, "string_value": value}] if key else [])
    token = ""
    while True:
        with kubeflow.reading("list runs") as client:
            page = client.list_runs(token, _PAGE, sort_by, namespace=kubeflow.namespace, filter=run_filter)
            runs, token = page.runs or [], page.next_page_token or ""
        yield from runs
        if not token:
            return


def _filter(predicates: Iterable[dict[str, object]]) -> str:
    """Filter in Kubeflow's form, without archived runs."""
    is_there = {"operation": "NOT_EQUALS", "key": "storage_state", "string_value": "ARCHIVED"}
    return json.dumps({"predicates": [is_there, *predicates]})


def _run(kubeflow: Kubeflow, response: Any) -> RemoteRun:
    parameters = (response.runtime_config and response.runtime_config.parameters) or {}
    details = response.run_details.task_details if response.run_details else None
    return RemoteRun(
        id=response.run_id,
        name=response.display_name or response.run_id,
        state=response.state or "PENDING",
        uri=resolve_run_id(str(parameters.get("run") or ""), response.run_id),
        pipeline=_pipeline(parameters),
        created=response.created_at,
        ended=_time(response.finished_at),
        schedule=response.recurring_run_id or "",
        error=_line(response.error),
        stages=tuple(_stages(kubeflow, response, details or [])),
        page=kubeflow.run_page(response.run_id),
    )


def _pipeline(parameters: Mapping[str, Any]) -> str:
    """Pipeline of the recipe in the arguments of the preflight task; empty for a run of other software."""
    try:
        recipe = parse_yaml(json.loads(parameters["preflight_config"])["recipe"]).value
        return str(recipe.get("pipeline", DEFAULT_METHOD))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return ""


def _stages(kubeflow: Kubeflow, response: Any, details: list[Any]) -> list[StageState]:
    """Tasks that are stages.

    Kubeflow 2 lists the nodes of Argo's workflow by their names, without the nodes that they are part of: the workflow,
    its groups, and for each task a driver, a node of the task's name, and an `executor` with its attempts.
    """
    groups = {task.parent_task_id for task in details if task.parent_task_id}
    workflows = {_node(child.pod_name)[0] for task in details for child in task.child_tasks or [] if child.pod_name}
    stages = [
        StageState(
            stage=task.display_name.replace("-", "_"),
            state=task.state or "PENDING",
            started=_time(task.start_time),
            ended=_time(task.end_time),
            error=_line(task.error),
            log=_log(kubeflow, response, _pod(task, details)),
        )
        for task in details
        if task.display_name
        and task.task_id not in groups
        and task.display_name not in workflows
        and not _NO_TASK.fullmatch(task.display_name)
    ]
    return sorted(stages, key=lambda stage: (stage.started is None, stage.started or datetime.min))


def _node(name: str) -> tuple[str, str]:
    """Name of a workflow and number of the node in it, from the node's id or its pod's name."""
    workflow, _, number = name.rpartition("-")
    return workflow, number


def _pod(task: Any, details: list[Any]) -> str:
    """Name of the pod of a task's last attempt; empty if Kubeflow does not name it."""
    pods = {_node(detail.pod_name)[1]: detail for detail in details if detail.pod_name}
    pod, todo = "", [task]
    while todo:
        node = todo.pop(0)
        if _STAGE_POD in (node.pod_name or ""):
            pod = node.pod_name
        # An executor's children are the tasks after it, unless they are its attempts.
        children = [pods.get(_node(child.pod_name or "")[1]) for child in node.child_tasks or []]
        todo += [child for child in children if child is not None and (child.display_name or "").startswith("executor")]
    return pod


def _log(kubeflow: Kubeflow, response: Any, pod: str) -> str:
    if not pod:
        return ""
    query = {"podname": pod, "runid": response.run_id}
    if kubeflow.namespace:
        query["podnamespace"] = kubeflow.namespace
    if response.created_at:
        query["createdat"] = f"{response.created_at:%Y-%m-%d}"  # the folder of an archived log
    return f"{kubeflow.pages}/k8s/pod/logs?{urlencode(query)}"


def _time(time: datetime | None) -> datetime | None:
    """Kubeflow's time, or None for 1970, its value for an unknown time."""
    return time if time is not None and time.year > 1970 else None


def _line(error: Any) -> str:
    return foreign_line(error.message or "") if error else ""
