"""Runs that begin by themselves: recurring runs of Kubeflow, one at a time, and none made up for.

Every run of a schedule has a folder of its own, named after the schedule and the id that Kubeflow gives the run: the
parameter `run` ends in `${KUBEFLOW_RUN_ID}`, which each pod finds in its environment. Kubeflow's own macros would not
do, since many backends leave them as they are in the parameters of these pipelines.
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

RUN_ID = "${KUBEFLOW_RUN_ID}"
"""In a run's URI: what Kubeflow calls the run, filled in where a stage starts."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
_PAGE = 100


class Schedule(BaseModel):
    """A schedule that Kubeflow keeps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    cron: str
    """Five fields; what Kubeflow has, where it has no such cron."""
    on: bool
    """Whether it begins runs; one that is paused does not."""
    version_id: str = ""
    """The pipeline version that it runs, pinned."""
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
    """Begin a run of this version whenever the cron says so, in Kubeflow's time zone.

    While one goes on, none begins; those that were missed are not made up for.

    Args:
        name: of the schedule, one in the namespace.
        cron: five fields, minute first.
        arguments: the pipeline's parameters; `run` holds RUN_ID.
        experiment: what its runs stand under.
    Raises:
        UserError: the cron is none, or the name is taken.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"schedule {name!r}: a name is small letters, digits and - inside, at most 50 of them")
    six_fields = kubeflow_cron(cron)
    if RUN_ID not in arguments.get("run", ""):
        raise ValueError(f"run is {arguments.get('run')!r}; every run of a schedule needs a folder of its own")
    if taken := [one for one in list_schedules(kubeflow) if one.name == name]:
        raise UserError(
            f"schedule {name} is there already ({taken[0].cron}); choose another --name, or take that one away first: "
            f"rubricworks schedules delete {name}"
        )
    group = experiment_id(kubeflow, experiment)
    with kubeflow.asked(f"create schedule {name}") as client:
        made = client.create_recurring_run(
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
    return _schedule(made)


def list_schedules(kubeflow: Kubeflow) -> list[Schedule]:
    """All of the namespace, by name."""
    return sorted((_schedule(one) for one in _told(kubeflow)), key=lambda one: (one.name, one.id))


def pause_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Begin no more runs; one that goes on is not stopped."""
    there = _found(kubeflow, name)
    with kubeflow.asked(f"pause schedule {there.name}") as client:
        client.disable_recurring_run(there.id)
    return _shown(kubeflow, there)


def resume_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Begin runs again, from the next time on."""
    there = _found(kubeflow, name)
    with kubeflow.asked(f"resume schedule {there.name}") as client:
        client.enable_recurring_run(there.id)
    return _shown(kubeflow, there)


def delete_schedule(kubeflow: Kubeflow, name: str) -> Schedule:
    """Take a schedule away; its runs stay."""
    there = _found(kubeflow, name)
    with kubeflow.asked(f"delete schedule {there.name}") as client:
        client.delete_recurring_run(there.id)
    return there


def _shown(kubeflow: Kubeflow, schedule: Schedule) -> Schedule:
    with kubeflow.asked(f"show schedule {schedule.name}") as client:
        return _schedule(client.get_recurring_run(schedule.id))


def _found(kubeflow: Kubeflow, name: str) -> Schedule:
    """Find a schedule by its name or Kubeflow's id."""
    there = list_schedules(kubeflow)
    found = [one for one in there if one.name == name] or [one for one in there if one.id == name]
    if not found:
        names = ", ".join(one.name for one in there[:5]) or "none"
        raise UserError(f"no schedule {name!r} at {kubeflow.url}; there are: {names}")
    if len(found) > 1:
        raise UserError(f"{len(found)} schedules are named {name!r}; give the id: {', '.join(one.id for one in found)}")
    return found[0]


def _told(kubeflow: Kubeflow) -> Iterator[Any]:
    token = ""
    while True:
        with kubeflow.asked("list schedules") as client:
            page = client.list_recurring_runs(token, _PAGE, namespace=kubeflow.namespace)
        yield from page.recurring_runs or []
        token = page.next_page_token or ""
        if not token:
            return


def _schedule(told: Any) -> Schedule:
    trigger, version = told.trigger, told.pipeline_version_reference
    return Schedule(
        id=told.recurring_run_id,
        name=told.display_name or told.recurring_run_id,
        cron=_when(trigger),
        on=(told.status or "") == "ENABLED" or (not told.status and told.mode == "ENABLE"),
        version_id=(version.pipeline_version_id or "") if version else "",
        created=told.created_at,
        error=" ".join(str(told.error.message or "").split())[:300] if told.error else "",
    )


def _when(trigger: Any) -> str:
    if trigger is not None and trigger.cron_schedule is not None:
        fields = str(trigger.cron_schedule.cron or "").split()
        return " ".join(fields[1:] if len(fields) == 6 and fields[0] == "0" else fields)
    if trigger is not None and trigger.periodic_schedule is not None:
        return f"every {trigger.periodic_schedule.interval_second} s"
    return ""
