"""Pruning: deletion of runs unchanged for long, unless a model in use came from them or a run that stays reuses them.

The way in which a run ended does not matter: a failed run that nobody resumed is as old as a finished one. A run that
has not ended may be running on another machine, or wait in a queue; it must have been quiet for days.

The models in use (those with an alias, such as the champion) are looked up in the registry that each run was tracked
in. If that cannot be reached, nothing is deleted. With a run go its caches, its MLflow runs with their artifacts, and
the versions that it registered, none of which is in use then.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.runs.records import RunRecord, run_record
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote, local_path
from rubricworks.tracking import TrackingConfig, connect, missing_database
from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.traces import Traces, delete_traces, find_traces

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_PAGE = 100
MAY_BE_RUNNING = timedelta(days=3)
"""Time for which a run in progress may write nothing: over a weekend, in a queue for GPUs."""


class PruneResult(NamedTuple):
    """An old run, and the reason to keep it."""

    run: RunRecord
    keep_reason: str
    """Empty if the run was deleted, or would be."""
    traces: Traces = Traces()
    """MLflow runs and versions that are deleted with it."""


def parse_age(text: str) -> timedelta:
    """Time of a text in hours, days or weeks: `90d` → 90 days.

    Raises:
        UserError: the text has another form, or is zero.
    """
    match = re.fullmatch(r"(\d{1,4})([hdw])", text.strip())
    if match is None or not int(match[1]):
        raise UserError(f"--older-than {text!r}: give hours, days or weeks, such as 12h, 90d or 8w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def prune_runs(
    store: RunStore, older_than: timedelta, *, dry_run: bool, now: datetime | None = None
) -> Iterator[PruneResult]:
    """Delete old runs and yield each of them, those to keep too.

    Args:
        older_than: age of a run's last write.
        dry_run: delete nothing.
        now: the time that ages are counted from.
    Raises:
        UserError: the registry of models cannot be reached, or a run cannot be deleted.
    """
    now = now or datetime.now(UTC)
    if not dry_run:
        store.finish_deleting()
    model_reason = _model_reasons(store)
    runs = [run for name in store.names() if (run := run_record(store, name, now=now)) is not None]
    old = {run.name: run for run in runs if run.changed <= now - older_than}
    reasons = {name: reason for name, run in old.items() if (reason := _running_reason(run, now) or model_reason(run))}
    reasons |= _reuse_reasons([run for run in runs if run.name not in old or run.name in reasons], old, reasons)
    for name, run in old.items():
        reason, traces = reasons.get(name, ""), Traces()
        # The run may have been resumed during the look-up in the registry.
        if not reason and not dry_run and run_record(store, name, now=now) != run:
            reason = "it was changed just now"
        if not reason:
            connection = tracking_connection(store, run)
            traces = find_traces(connection, name, run.tracking_key) if connection is not None else traces
            if not dry_run:
                if connection is not None:
                    delete_traces(connection, traces)
                store.delete(name)
        yield PruneResult(run, reason, traces)


def tracking_connection(store: RunStore, run: RunRecord) -> Connection | None:
    """Connection to the MLflow that tracked a run; None if there never was one.

    Raises:
        UserError: it does not answer or refuses.
    """
    folder = Path.cwd() if is_remote(store.uri) else local_path(store.uri)
    config = TrackingConfig.model_validate(run.tracking)
    return None if missing_database(config, folder) is not None else connect(config, folder)


def _running_reason(run: RunRecord, now: datetime) -> str:
    if run.fault:
        return f"it cannot be read in full: {run.fault}"
    if run.state == "going":
        return "it is going"
    if run.state != "done" and run.changed > now - MAY_BE_RUNNING:
        return f"it is {run.state}, but was changed in the last {MAY_BE_RUNNING.days} days: it may be going, or go on"
    return ""


def _reuse_reasons(
    staying: list[RunRecord], old: Mapping[str, RunRecord], remaining: Mapping[str, str]
) -> dict[str, str]:
    """Reason to keep each old run that a staying run reuses, directly or through others.

    Runs are matched by name only, so a run may be kept too long but is never deleted too soon.
    """
    reasons: dict[str, str] = {}
    while staying:
        run = staying.pop()
        for name in run.reused_runs:
            if name in old and name not in remaining and name not in reasons:
                reasons[name] = f"{run.name} takes from it"
                staying.append(old[name])
    return reasons


def _model_reasons(store: RunStore) -> Callable[[RunRecord], str]:
    """Function that names the model in use that came from a run; it asks each registry once, at the first need."""
    folder = None if is_remote(store.uri) else local_path(store.uri)

    @cache
    def models(uri: str, experiment: str) -> dict[str, str]:
        return _runs_of_models(TrackingConfig(uri=uri, experiment=experiment), folder or Path.cwd())

    def reason(run: RunRecord) -> str:
        config = TrackingConfig.model_validate(run.tracking)
        if config.uri or os.environ.get("MLFLOW_TRACKING_URI"):
            reasons = models(config.uri, config.experiment)
        elif folder is None:
            raise UserError(
                "MLFLOW_TRACKING_URI is not set, so nobody can tell which runs the models in use came from; set it"
            )
        elif missing_database(config, folder) is None:
            reasons = models("", config.experiment)
        else:
            reasons = {}  # no registry was ever made here
        return reasons.get(run.name, "")

    return reason


def _runs_of_models(config: TrackingConfig, runs: Path) -> dict[str, str]:
    """Run → the reason to keep it: a model with an alias came from it."""
    connection = connect(config, runs)
    if connection is None:
        raise UserError(
            "MLflow is not installed, so nobody can tell which runs the models in use came from; "
            "pip install 'rubricworks[tracking]'"
        )
    reasons: dict[str, str] = {}
    token: str | None = None
    with report_mlflow_errors(connection.uri):
        while True:
            page = connection.client.search_registered_models(max_results=_PAGE, page_token=token)
            for model in page:
                for alias, version in model.aliases.items():
                    tags = connection.client.get_model_version(model.name, str(version)).tags
                    if run := tags.get("run"):
                        reasons[run] = f"{model.name} version {version}, the {alias}, came from it"
            token = page.token
            if not token:
                return reasons
