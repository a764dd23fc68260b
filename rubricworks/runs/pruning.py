"""Old runs that nobody needs: unchanged for long, no model in use came from them and no run that stays takes from them.

It does not matter how they ended: a failed run that nobody went on with is as old as a finished one. One that has not
ended may still be going where nobody here can see it, or wait in a queue; it must have been quiet for days.

What a model in use (one with an alias, such as the champion) was made by is asked of the registry that each run was
tracked in. Where that cannot be asked, nothing is taken away.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.runs.records import RunRecord, record_of
from rubricworks.runs.store import RunStore
from rubricworks.storage import is_remote, local_path
from rubricworks.tracking import TrackingConfig, connect, tracking_uri
from rubricworks.tracking.connection import explained

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_PAGE = 100
MAY_BE_GOING = timedelta(days=3)
"""How long a run that has not ended may write nothing: over a weekend, in a queue for GPUs."""


class Pruned(NamedTuple):
    """An old run, and what became of it."""

    run: RunRecord
    kept_because: str
    """Empty where it was taken away, or would be."""


def age(text: str) -> timedelta:
    """`90d` → 90 days; h, d and w are known.

    Raises:
        UserError: it is no such text, or no time at all.
    """
    match = re.fullmatch(r"(\d{1,4})([hdw])", text.strip())
    if match is None or not int(match[1]):
        raise UserError(f"--older-than {text!r}: give hours, days or weeks, such as 12h, 90d or 8w")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def prune(store: RunStore, older_than: timedelta, *, dry_run: bool, now: datetime | None = None) -> Iterator[Pruned]:
    """Take away the runs that are old; each is told as it goes.

    Args:
        older_than: how long ago anything of a run was last written.
        dry_run: only tell.
        now: the time that ages are counted from.
    Raises:
        UserError: it cannot be asked which models are in use, or a run cannot be deleted.
    """
    now = now or datetime.now(UTC)
    if not dry_run:
        store.finish_deleting()
    in_use = _registries(store)
    there = [run for name in store.names() if (run := record_of(store, name)) is not None]
    old = {run.name: run for run in there if run.changed <= now - older_than}
    kept = {name: reason for name, run in old.items() if (reason := _going(run, now) or in_use(run))}
    kept |= _taken_from([run for run in there if run.name not in old or run.name in kept], old, kept)
    for name, run in old.items():
        reason = kept.get(name, "")
        # Somebody may have gone on with it while the registry was asked.
        if not reason and not dry_run:
            if record_of(store, name) != run:
                reason = "it was changed just now"
            else:
                store.delete(name)
        yield Pruned(run, reason)


def _going(run: RunRecord, now: datetime) -> str:
    if run.state == "going":
        return "it is going"
    if run.state != "done" and run.changed > now - MAY_BE_GOING:
        return f"it is {run.state}, but was changed in the last {MAY_BE_GOING.days} days: it may be going, or go on"
    return ""


def _taken_from(staying: list[RunRecord], old: Mapping[str, RunRecord], kept: Mapping[str, str]) -> dict[str, str]:
    """Old runs that a run which stays takes from, and those that these take from.

    They are told by name alone, wherever they lie: rather one kept too long than one gone too soon.
    """
    found: dict[str, str] = {}
    while staying:
        run = staying.pop()
        for name in run.takes_from:
            if name in old and name not in kept and name not in found:
                found[name] = f"{run.name} takes from it"
                staying.append(old[name])
    return found


def _registries(store: RunStore) -> Callable[[RunRecord], str]:
    """Says which model in use came from a run; asks each registry once, when it is first needed."""
    folder = None if is_remote(store.uri) else local_path(store.uri)

    @cache
    def models(uri: str, experiment: str) -> dict[str, str]:
        return _in_use(TrackingConfig(uri=uri, experiment=experiment), folder or Path.cwd())

    def reason(run: RunRecord) -> str:
        config = TrackingConfig.model_validate(run.tracking)
        if config.uri or os.environ.get("MLFLOW_TRACKING_URI"):
            known = models(config.uri, config.experiment)
        elif folder is None:
            raise UserError(
                "MLFLOW_TRACKING_URI is not set, so nobody can tell which runs the models in use came from; set it"
            )
        elif Path(tracking_uri(config, folder).removeprefix("sqlite:///")).is_file():
            known = models("", config.experiment)
        else:
            known = {}  # no registry was ever made here
        return known.get(run.name, "")

    return reason


def _in_use(config: TrackingConfig, runs: Path) -> dict[str, str]:
    """Run → the model and the alias that keep it."""
    connection = connect(config, runs)
    if connection is None:
        raise UserError(
            "MLflow is not installed, so nobody can tell which runs the models in use came from; "
            "pip install 'rubricworks[tracking]'"
        )
    found: dict[str, str] = {}
    token: str | None = None
    with explained(connection.uri):
        while True:
            page = connection.client.search_registered_models(max_results=_PAGE, page_token=token)
            for model in page:
                for alias, version in model.aliases.items():
                    tags = connection.client.get_model_version(model.name, str(version)).tags
                    if run := tags.get("run"):
                        found[run] = f"{model.name} version {version}, the {alias}, came from it"
            token = page.token
            if not token:
                return found
