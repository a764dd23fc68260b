"""Old runs that nobody needs any more: finished, unchanged for long, and no model in use came from them.

What a model in use (one with an alias, such as the champion) was made by is asked of the registry that each run was
tracked in. Where that cannot be asked, nothing is taken away.
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.pipelines.run_records import RunRecord, record_of
from rubricworks.pipelines.run_store import RunStore
from rubricworks.storage import is_remote, local_path
from rubricworks.tracking import TrackingConfig, connect, tracking_uri
from rubricworks.tracking.connection import explained

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_PAGE = 100


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
    limit = (now or datetime.now(UTC)) - older_than
    if not dry_run:
        store.finish_deleting()
    in_use = _registries(store)
    for name in store.names():
        run = record_of(store, name)
        if run is None or run.changed > limit:
            continue
        reason = "" if run.state == "done" else f"it is {run.state}" if run.state == "going" else "it is not finished"
        reason = reason or in_use(run)
        # Somebody may have gone on with it while the registry was asked.
        if not reason and not dry_run:
            again = record_of(store, name)
            if again != run:
                reason = "it was changed just now"
            else:
                store.delete(name)
        yield Pruned(run, reason)


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
