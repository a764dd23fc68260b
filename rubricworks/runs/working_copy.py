"""The working copy of a run: its own folder, or for `--runs s3://bucket/folder` one in this machine's workspace."""

import json
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.runs.records import OUTCOME
from rubricworks.storage import check_storage, is_remote, join, open_bucket, write_atomic


def local_runs_folder(runs: str) -> Path:
    """Folder of all runs on this machine: the one that `runs` names, or the store's in the workspace."""
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
    """Write the outcome of a run that succeeded into its folder and, for a run in a store, there too."""
    from rubricworks.stages.cluster.outcome import success_message

    outcome = json.dumps({"state": "SUCCEEDED", "message": success_message(folder)}).encode()
    write_atomic(folder / OUTCOME, outcome)
    if is_remote(runs):
        open_bucket(join(runs, folder.name)).write(OUTCOME, outcome)
