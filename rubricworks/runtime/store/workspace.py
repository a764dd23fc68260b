"""Workspace of a stage: the run's own folder or, for a run in the store, a local copy of what the stage needs.

A stage reads and writes local paths. A run at `s3://bucket/runs/ID` is worked on in a folder of the workspace
($RUBRICWORKS_WORKSPACE, or a folder in the temporary directory), always the same for the same run. Inputs are
downloaded before the stage starts, and what it commits is uploaded while it runs (`mirror`). So only the store must
outlive a pod; a workspace that outlives it saves downloads.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.runtime.job import DONE
from rubricworks.runtime.stage_table import STAGES
from rubricworks.runtime.store.attempts import begin_attempt, latest_attempt, read_index
from rubricworks.runtime.store.downloads import fetch_files, fetch_input
from rubricworks.runtime.store.mirror import Mirror
from rubricworks.runtime.store.run_state import STATE, RunState
from rubricworks.storage import Bucket, is_remote, join, local_path, open_bucket, write_atomic
from rubricworks.terminal import say

RUN_FILES = ("recipe.yaml", "budget.json", "reuse.json", "tracking/settings.json")
"""Files of a run that exist before its stages run."""


class Workspace:
    """Local folder of one stage's run. For a run in a local folder it is that folder, and nothing is copied."""

    def __init__(self, stage: str, run: str, inputs: dict[str, str]) -> None:
        """
        Args:
            run: URI of the run.
            inputs: name → URI of an input, of this run or another.
        """
        self._stage, self._run_uri, self._uris = stage, run, inputs
        self.run = workspace_path(run)
        self.inputs = {name: workspace_path(uri) for name, uri in inputs.items()}
        self._bucket: Bucket | None = None
        self._mirror: Mirror | None = None

    def fetch(self) -> None:
        """Download the inputs and what an earlier attempt committed, and start mirroring the output.

        Raises:
            UserError: the store refuses or does not answer, or an input is not finished.
        """
        self.run.mkdir(parents=True, exist_ok=True)
        for uri in {uri for uri in self._uris.values() if is_remote(uri)}:
            fetch_input(uri, workspace_path(uri))
        if not is_remote(self._run_uri):
            return
        self._bucket = bucket = open_bucket(self._run_uri)
        fetch_run_files(self._run_uri)
        whole = STAGES[self._stage].reads_whole_run
        if whole:
            for stage in bucket.below(STATE).folders():
                if stage != self._stage:
                    fetch_files(bucket, self.run, read_index(bucket, stage), weights=False)
        state = RunState(bucket, self.run, self._stage)
        state.fetch(whole=whole)
        index = read_index(bucket, self._stage)
        attempt_file = self.run / ".mirror" / f"{self._stage}.json"
        if latest_attempt(bucket, self._stage) != _recorded_attempt(attempt_file):
            # Another machine may have worked on the stage since: the local copy is older than the store's.
            shutil.rmtree(self.run / self._stage, ignore_errors=True)
            fetch_files(bucket, self.run, index)
        if _is_follower():
            write_atomic(attempt_file, json.dumps({"attempt": latest_attempt(bucket, self._stage)}).encode())
            return
        attempt = begin_attempt(bucket, self._stage)
        bucket.below(self._stage).delete_unfinished_uploads()
        write_atomic(attempt_file, json.dumps({"attempt": attempt}).encode())
        self._mirror = Mirror(bucket, self.run, self._stage, attempt, index, state)
        self._mirror.start()

    def upload(self) -> None:
        """Finish the upload of a stage that is done.

        Raises:
            UserError: the store cannot be written; both copies stay as they are for the next attempt.
        """
        if self._mirror is not None:
            self._mirror.finish()
            self._mirror = None
            if STAGES[self._stage].opens_run:
                upload_run_files(self._run_uri)

    def upload_failure(self) -> None:
        """Upload a failed stage's error and what it committed; only print if the store cannot be written."""
        if not is_remote(self._run_uri) or _is_follower():
            return
        try:
            if self._mirror is None:
                RunState(open_bucket(self._run_uri), self.run, self._stage).push_error()
            else:
                self._mirror.give_up()
        except Exception as error:
            say(f"not all could be kept: {error}")

    def uri_of(self, out: Path) -> str:
        """Return the URI by which other stages address a folder of the run."""
        return join(self._run_uri, out.relative_to(self.run).as_posix()) if is_remote(self._run_uri) else str(out)


def workspace_path(uri: str) -> Path:
    """Return the local path for a URI: in the workspace for a remote one, itself for a local one."""
    if not is_remote(uri):
        return local_path(uri)
    return workspace_root().joinpath(*uri.removeprefix("s3://").strip("/").split("/"))


def workspace_root() -> Path:
    """Return the folder that holds the local copies of runs in the store."""
    return Path(
        os.environ.get("RUBRICWORKS_WORKSPACE") or Path(tempfile.gettempdir()) / f"rubricworks-{os.getuid()}"
    ).absolute()


def workspace_uri(folder: Path) -> str | None:
    """Return the URI that a folder of the workspace is a copy of; None for any other folder."""
    root = workspace_root().resolve()
    return f"s3://{folder.relative_to(root).as_posix()}" if root in folder.parents else None


def fetch_run_files(run: str) -> Path:
    """Download the run files (`RUN_FILES`) and return the run's local folder."""
    bucket, folder = open_bucket(run), workspace_path(run)
    for name in RUN_FILES:
        try:
            bucket.download(name, folder / name)
        except FileNotFoundError:
            (folder / name).unlink(missing_ok=True)
    return folder


def fetch_records(run: str) -> Path:
    """Download the records of a run's finished stages and its scores, without images and weights.

    Returns:
        The run's local folder.
    """
    bucket, folder = open_bucket(run), fetch_run_files(run)
    for stage in bucket.below(STATE).folders():
        index = read_index(bucket, stage)
        wanted = (f"{stage}/{DONE}" in index) and {
            path: entry
            for path, entry in index.items()
            if path.endswith((".json", ".md")) or path.startswith("score/scores/")
        }
        fetch_files(bucket, folder, wanted or {}, weights=False)
    return folder


def upload_run_files(run: str) -> None:
    """Upload the run files (`RUN_FILES`) from the run's local folder."""
    bucket, folder = open_bucket(run), workspace_path(run)
    for name in RUN_FILES:
        if (folder / name).is_file():
            bucket.write(name, (folder / name).read_bytes())


def is_finished(run: str, stage: str) -> bool:
    """Return True if the stage of a run in the store is done."""
    return f"{stage}/{DONE}" in read_index(open_bucket(run), stage)


def _recorded_attempt(path: Path) -> str:
    """Return the attempt that the local copy belongs to."""
    try:
        return str(json.loads(path.read_bytes())["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        return "none here"


def _is_follower() -> bool:
    """Return True in a process of a distributed training other than rank 0, which writes the output."""
    try:
        return int(os.environ.get("RANK") or 0) > 0
    except ValueError:
        raise UserError(f"RANK is {os.environ['RANK']!r}; it is the number of this process of a training") from None
