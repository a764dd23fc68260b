"""The working copy of a run: its own folder, or for `--runs s3://bucket/folder` one in this machine's workspace."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.errors import UserError
from rubricworks.runs.records import OUTCOME
from rubricworks.runtime.job import MADE_FROM
from rubricworks.storage import check_storage, is_remote, join, open_bucket, write_atomic

if TYPE_CHECKING:
    from rubricworks.stages.cluster.outcome import State


def local_runs_folder(runs: str) -> Path:
    """Folder of all runs on this machine: `runs` itself, or the store's copy in the workspace."""
    if not is_remote(runs):
        return Path(runs).absolute()
    from rubricworks.runtime.store.workspace import workspace_path

    return workspace_path(runs)


def fetch_run(runs: str, run_id: str, *, new: bool) -> None:
    """Check that the store can be written, and fetch the run's recipe and settings; do nothing for runs in a folder.

    Raises:
        UserError: the store cannot be used, a new run exists already, or an old one does not.
    """
    if not is_remote(runs):
        return
    from rubricworks.runtime.store.workspace import fetch_run_files

    check_storage(runs)
    exists = (fetch_run_files(join(runs, run_id)) / "recipe.yaml").exists()
    if not new and not exists:
        raise UserError(f"no run {run_id!r} in {runs}; `rubricworks runs list --runs {runs}` shows them")
    if new and exists:
        raise UserError(
            f"{join(runs, run_id)} is there already; continue it with --resume {run_id} or choose another --run"
        )


def push_run(runs: str, folder: Path) -> str:
    """Store a run's recipe and settings where its stages read them; returns the run's URI."""
    if not is_remote(runs):
        return folder.as_uri()
    from rubricworks.runtime.store.workspace import upload_run_files

    upload_run_files(join(runs, folder.name))
    return join(runs, folder.name)


def write_success(runs: str, folder: Path) -> None:
    """Write the outcome of a run that succeeded."""
    from rubricworks.stages.cluster.outcome import success_message

    _write_outcome(runs, folder, "SUCCEEDED", success_message(folder))


def write_stop(runs: str, folder: Path, message: str) -> None:
    """Write the outcome of a run that somebody stopped."""
    _write_outcome(runs, folder, "CANCELLED", message)


def _write_outcome(runs: str, folder: Path, state: "State", message: str | None) -> None:
    """Write an outcome into the run's folder and, for a run in a store, there too."""
    begun = sorted(path.parent.name for path in folder.glob(f"*/{MADE_FROM}"))
    outcome = json.dumps({"state": state, "message": message, "begun": begun}).encode()
    write_atomic(folder / OUTCOME, outcome)
    if is_remote(runs):
        open_bucket(join(runs, folder.name)).write(OUTCOME, outcome)
