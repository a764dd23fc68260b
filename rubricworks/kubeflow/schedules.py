"""Schedules: recurring runs of Kubeflow, one at a time, without catch-up of missed ones.

Each run of a schedule has its own folder, named after the schedule and Kubeflow's run id: the parameter `run` ends in
`${KUBEFLOW_RUN_ID}`, which the pipeline's first and last task resolve (`runtime.run_uri`). Backends resolve Kubeflow's
own macros only in arguments of tasks, not in parameters of pipelines.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from rubricworks.errors import UserError
from rubricworks.kubeflow.connection import Kubeflow
from rubricworks.kubeflow.cron import kubeflow_cron
from rubricworks.kubeflow.remote_runs import experiment_id
from rubricworks.kubeflow.versions import PipelineVersion
from rubricworks.runtime.run_uri import RUN_ID

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
_PAGE = 100


class Schedule(BaseModel):
    """A schedule on Kubeflow."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    cron: str
    """Five-field cron, or Kubeflow's own text if it has no such cron."""
    on: bool
    """False while the schedule is paused."""
    version_id: str = ""
    """Id of the pinned pipeline version."""
    created: datetime | None = None
    error: str = ""


def create_schedule(
    kubeflow: Kubeflow,
    name: str,
    cron: str,
    version: PipelineVersion,
    arguments: Mapping[str, str],
    *,
    experiment: str,
    on: bool = True,
    service_account: str | None = None,
    pipeline_root: str | None = None,
) -> Schedule:
    """Create a schedule that starts runs of a version by a cron, in Kubeflow's time zone.

    No run starts while another one is active; missed runs are not made up for.

    Args:
        name: name of the schedule, unique in the namespace.
        cron: five fields, minute first.
        arguments: the pipeline's parameters; `run` contains RUN_ID.
        experiment: Kubeflow experiment of its runs.
    Raises:
        UserError: the cron is invalid, or the name is in use.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"schedule {name!r}: a name is small letters, digits and - inside, at most 50 of them")
    six_fields = kubeflow_cron(cron)
    if RUN_ID not in arguments.get("run", ""):
        raise ValueError(f"run is {arguments.get('run')!r}; every run of a schedule needs a folder of its own")
    if same_name := [schedule for schedule in list_schedules(kubeflow) if schedule.name == name]:
        raise UserError(
            f"schedule {name} is there already ({same_name[0].cron}); choose another --name, or take that one away "
            f"first: rubricworks schedules delete {name}"
        )
    group = experiment_id(kubeflow, experiment)
    with kubeflow.request(f"create schedule {name}") as client:
        response = client.create_recurring_run(
            group,
            name,
            cron_expression=six_fields,
            max_concurrency=1,
            no_catchup=True,
            params=dict(arguments),
            pipeline_id=version.pipeline_id,
            version_id=version.version_id,
            enabled=on,
            service_account=service_account,
            pipeline_root=pipeline_root,
        )
    return _schedule(response)


def list_schedules(kubeflow: Kubeflow) -> list[Schedule]:
    """List the schedules of the namespace, sorted by name."""
    return sorted(
        (_schedule(schedule) for schedule in _recurring_runs(kubeflow)),
        key=lambda schedule: (schedule.name, schedule.id),
    )


def pause_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Pause a schedule; an active run of it continues."""
    schedule = _find_schedule(kubeflow, name)
    with kubeflow.request(f"pause schedule {schedule.name}") as client:
        client.disable_recurring_run(schedule.id)
    return _reload(kubeflow, schedule)


def resume_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Resume a paused schedule, from its next time on."""
    schedule = _find_schedule(kubeflow, name)
    with kubeflow.request(f"resume schedule {schedule.name}") as client:
        client.enable_recurring_run(schedule.id)
    return _reload(kubeflow, schedule)


def delete_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Delete a schedule; its runs stay."""
    schedule = _find_schedule(kubeflow, name)
    with kubeflow.request(f"delete schedule {schedule.name}") as client:
        client.delete_recurring_run(schedule.id)
    return schedule


def _reload(kubeflow: Kubeflow, schedule: Schedule) -> Schedule:
    with kubeflow.request(f"show schedule {schedule.name}") as client:
        return _schedule(client.get_recurring_run(schedule.id))


def _find_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Find a schedule by its name or Kubeflow's id."""
    schedules = list_schedules(kubeflow)
    matches = [schedule for schedule in schedules if schedule.name == name] or [
        schedule for schedule in schedules if schedule.id == name
    ]
    if not matches:
        names = ", ".join(schedule.name for schedule in schedules[:5]) or "none"
        raise UserError(f"no schedule {name!r} at {kubeflow.url}; there are: {names}")
    if len(matches) > 1:
        ids = ", ".join(match.id for match in matches)
        raise UserError(f"{len(matches)} schedules are named {name!r}; give the id: {ids}")
    return matches[0]


def _recurring_runs(kubeflow: Kubeflow) -> Iterator[Any]:
    token = ""
    while True:
        with kubeflow.request("list schedules") as client:
            page = client.list_recurring_runs(token, _PAGE, namespace=kubeflow.namespace)
        yield from page.recurring_runs or []
        token = page.next_page_token or ""
        if not token:
            return


def _schedule(response: Any) -> Schedule:
    version = response.pipeline_version_reference
    return Schedule(
        id=response.recurring_run_id,
        name=response.display_name or response.recurring_run_id,
        cron=_cron(response.trigger),
        on=(response.status or "") == "ENABLED" or (not response.status and response.mode == "ENABLE"),
        version_id=(version.pipeline_version_id or "") if version else "",
        created=response.created_at,
        error=" ".join(str(response.error.message or "").split())[:300] if response.error else "",
    )


def _cron(trigger: Any) -> str:
    if trigger is not None and trigger.cron_schedule is not None:
        fields = str(trigger.cron_schedule.cron or "").split()
        return " ".join(fields[1:] if len(fields) == 6 and fields[0] == "0" else fields)
    if trigger is not None and trigger.periodic_schedule is not None:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return ""
