"""`--runs s3://bucket/folder`: runs that live in a store and are worked on here, in the workspace."""

import json
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.storage import check_storage, is_remote, join, open_bucket, write_atomic


def runs_folder(runs: str) -> Path:
    """The folder of all runs here: the one that is named, or the store's in the workspace."""
    if not is_remote(runs):
        return Path(runs).absolute()
    from rubricworks.runtime.store.workspace import workspace_path

    return workspace_path(runs)


def open_stored_run(runs: str, run_id: str, *, new: bool) -> None:
    """Check that the store can be written, and get what is said of the run there; nothing for runs in a folder.

    Raises:
        UserError: the store cannot be used, a new run is there already, or an old one is not there.
    """
    if not is_remote(runs):
        return
    from rubricworks.runtime.store.workspace import fetch_run_files

    check_storage(runs)
    there = (fetch_run_files(join(runs, run_id)) / "recipe.yaml").exists()
    if not new and not there:
        raise UserError(f"no run {run_id!r} in {runs}; `rubricworks runs list --runs {runs}` shows them")
    if new and there:
        raise UserError(
            f"{join(runs, run_id)} is there already; continue it with --resume {run_id} or choose another --run"
        )


def keep_stored_run(runs: str, folder: Path) -> str:
    """Put what is said of a run where its stages read it; returns the run's URI."""
    if not is_remote(runs):
        return folder.as_uri()
    from rubricworks.runtime.store.workspace import upload_run_files

    upload_run_files(join(runs, folder.name))
    return join(runs, folder.name)


def keep_outcome(runs: str, folder: Path) -> None:
    """Say how a run ended that ended well: in its folder and, of a run in a store, there."""
    from rubricworks.runs.records import OUTCOME
    from rubricworks.stages.cluster.outcome import success_message

    outcome = json.dumps({"state": "SUCCEEDED", "message": success_message(folder)}).encode()
    write_atomic(folder / OUTCOME, outcome)
    if is_remote(runs):
        open_bucket(join(runs, folder.name)).write(OUTCOME, outcome)
