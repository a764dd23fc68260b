"""Where a stage of a run works: the run's own folder or, for a run in the store, a copy of what it needs of it.

A stage reads and writes local paths. Of a run at `s3://bucket/runs/ID` it works in a folder of the workspace,
$RUBRICWORKS_WORKSPACE or a folder below the temporary one, always the same for the same run: what it reads is fetched
before it starts, what it commits is kept in the store while it runs (`mirror`). So nothing but the store must outlive
a pod, and a workspace that does outlive it saves the fetching.
"""

import json
import os
import shutil
import sys
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

RUN_FILES = ("recipe.yaml", "budget.json", "reuse.json", "tracking/settings.json")
"""What is said of a run before its stages run."""


class Workspace:
    """Where one stage of a run works. For a run in a folder that is this folder, and nothing is copied."""

    def __init__(self, stage: str, run: str, inputs: dict[str, str]) -> None:
        """
        Args:
            run: URI of the run.
            inputs: name → URI of what is read; other runs', too.
        """
        self._stage, self._run_uri, self._uris = stage, run, inputs
        self.run = workspace_of(run)
        self.inputs = {name: workspace_of(uri) for name, uri in inputs.items()}
        self._bucket: Bucket | None = None
        self._mirror: Mirror | None = None

    def fetch(self) -> None:
        """Get what the stage reads, and what an earlier attempt of it had kept; from now on keep what it makes.

        Raises:
            UserError: the store refuses or does not answer, or an input is not finished.
        """
        self.run.mkdir(parents=True, exist_ok=True)
        for uri in {uri for uri in self._uris.values() if is_remote(uri)}:
            fetch_input(uri, workspace_of(uri))
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
        note = self.run / ".mirror" / f"{self._stage}.json"
        if latest_attempt(bucket, self._stage) != _noted(note):
            # Another machine has worked on it since, or none has: what is here is older than what is there.
            shutil.rmtree(self.run / self._stage, ignore_errors=True)
            fetch_files(bucket, self.run, index)
        if _is_follower():
            write_atomic(note, json.dumps({"attempt": latest_attempt(bucket, self._stage)}).encode())
            return
        attempt = begin_attempt(bucket, self._stage)
        bucket.below(self._stage).delete_unfinished_uploads()
        write_atomic(note, json.dumps({"attempt": attempt}).encode())
        self._mirror = Mirror(bucket, self.run, self._stage, attempt, index, state)
        self._mirror.start()

    def keep(self) -> None:
        """The stage is done: see that all it made is in the store.

        Raises:
            UserError: it cannot be written there; what is here and there stays as it is, for the next attempt.
        """
        if self._mirror is not None:
            self._mirror.finish()
            self._mirror = None
            if STAGES[self._stage].opens_run:
                keep_run_files(self._run_uri)

    def leave(self) -> None:
        """The stage failed: keep what it had committed, and its error, if the store takes it."""
        if not is_remote(self._run_uri) or _is_follower():
            return
        try:
            if self._mirror is None:
                RunState(open_bucket(self._run_uri), self.run, self._stage).push_error()
            else:
                self._mirror.give_up()
        except Exception as error:
            print(f"not all could be kept: {error}", file=sys.stderr, flush=True)

    def uri_of(self, out: Path) -> str:
        """What other stages call a folder of the run."""
        return join(self._run_uri, out.relative_to(self.run).as_posix()) if is_remote(self._run_uri) else str(out)


def workspace_of(uri: str) -> Path:
    """Where what a URI names is worked on: a local one where it is."""
    if not is_remote(uri):
        return local_path(uri)
    return workspace_folder().joinpath(*uri.removeprefix("s3://").strip("/").split("/"))


def workspace_folder() -> Path:
    """Where runs in the store are worked on."""
    return Path(
        os.environ.get("RUBRICWORKS_WORKSPACE") or Path(tempfile.gettempdir()) / f"rubricworks-{os.getuid()}"
    ).absolute()


def uri_of_workspace(folder: Path) -> str | None:
    """What a folder of the workspace is a copy of; None for any other folder."""
    place = workspace_folder().resolve()
    return f"s3://{folder.relative_to(place).as_posix()}" if place in folder.parents else None


def fetch_run_files(run: str) -> Path:
    """Get what is said of a run before its stages run; returns the run's folder here."""
    bucket, folder = open_bucket(run), workspace_of(run)
    for name in RUN_FILES:
        try:
            bucket.download(name, folder / name)
        except FileNotFoundError:
            (folder / name).unlink(missing_ok=True)
    return folder


def keep_run_files(run: str) -> None:
    """Put what is said of a run, in its folder here, into the store."""
    bucket, folder = open_bucket(run), workspace_of(run)
    for name in RUN_FILES:
        if (folder / name).is_file():
            bucket.write(name, (folder / name).read_bytes())


def is_finished(run: str, stage: str) -> bool:
    """Whether a stage of a run in the store is done."""
    return f"{stage}/{DONE}" in read_index(open_bucket(run), stage)


def _noted(note: Path) -> str:
    try:
        return str(json.loads(note.read_bytes())["attempt"])
    except (OSError, ValueError, KeyError, TypeError):
        return "none here"


def _is_follower() -> bool:
    """Whether this is one of several processes of a training, and not the one that writes."""
    try:
        return int(os.environ.get("RANK") or 0) > 0
    except ValueError:
        raise UserError(f"RANK is {os.environ['RANK']!r}; it is the number of this process of a training") from None
