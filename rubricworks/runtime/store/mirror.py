"""Mirror of a stage's growing output folder in the store, from which the next attempt resumes if this pod dies.

Every few seconds new files are uploaded, data before the manifests that commit it, and then one object, the index of
the files that belong together. A later attempt reads only what the index names, so it never sees half a checkpoint,
whenever the pod was killed. Files deleted here are deleted from the store last.
"""

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.ledger import LEDGER_FILE
from rubricworks.data.manifest import MANIFEST
from rubricworks.data.response_images import IMAGES
from rubricworks.errors import TransientError, UserError
from rubricworks.llm.identity import IDENTITY_FILE
from rubricworks.runtime.job import DONE
from rubricworks.runtime.store.attempts import REPLACED, IndexEntry, check_attempt, write_index
from rubricworks.runtime.store.run_state import ERROR_FILE, RunState
from rubricworks.storage import Bucket, join
from rubricworks.storage.files import TEMPORARY_SUFFIX

log = logging.getLogger(__name__)

PUSH_EVERY_S = 5.0
_AT_ONCE = 4
_ROUNDS = 20
_COMMIT_FILES = ("trainer_state.json", MANIFEST, DONE)
"""Uploaded after everything else, in this order."""
_SHARED_FILES = (ERROR_FILE, LEDGER_FILE, IDENTITY_FILE, "lock")


class FileState(NamedTuple):
    """Size and modification time of a local file, to tell whether it changed."""

    size: int
    modified_ns: int


class Mirror:
    """Mirror of one attempt of a stage; `push` may be called at any time, also while the stage writes."""

    def __init__(
        self, bucket: Bucket, run: Path, stage: str, attempt: str, index: dict[str, IndexEntry], state: RunState
    ) -> None:
        """
        Args:
            bucket: the run in the store.
            run: its folder on this machine.
            attempt: name of this attempt; an attempt that begins later takes over.
            index: files that an earlier attempt uploaded.
            state: the stage's shared state, already fetched.
        """
        self._bucket, self._run, self._stage, self._attempt = bucket, run, stage, attempt
        self.state, self._index = state, index
        self._uploaded = {
            path: local for path, entry in index.items() if (local := _state_if_current(run / path, entry))
        }
        self._root = {path.name: _file_state(path) for path in run.glob("*") if path.is_file()}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Push every few seconds from a thread; each storage error is logged once, and the push retried."""
        interval = float(os.environ.get("RUBRICWORKS_PUSH_SECONDS") or PUSH_EVERY_S)
        logged: set[str] = set()

        def push_repeatedly() -> None:
            while not self._ended.wait(interval):
                try:
                    self.push()
                    self.state.fetch_spending()
                except Exception as error:  # only the final push, which the stage waits for, may fail it
                    if str(error) not in logged:
                        logged.add(str(error))
                        log.warning("storage: %s. The stage goes on, and it is tried again", error)

        self._thread = threading.Thread(target=push_repeatedly, name="mirror", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, after a push that is under way."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def finish(self) -> None:
        """Push until nothing is new, for a stage that is done. Raises as `push` does."""
        self.stop()
        for _ in range(_ROUNDS):
            if not self.push():
                self.state.push_error()
                self._merge_answers()
                return
        raise TransientError(f"{self._run / self._stage} keeps changing, or cannot be read; run again")

    def _merge_answers(self) -> None:
        try:
            self.state.merge_answers(self._attempt)
        except (UserError, FileNotFoundError) as error:  # the answers are all stored; merging only saves time later
            log.warning("storage: %s. The answers stay in many pieces", error)

    def give_up(self) -> None:
        """Push a failed stage's error, then all that it committed. Raises as `push` does."""
        self.stop()
        check_attempt(self._bucket, self._stage, self._attempt)
        self.state.push_error()
        self.finish()

    def push(self) -> bool:
        """Upload what changed since the last push; return True if anything did.

        Raises:
            UserError: the store cannot be written despite retries, or a later attempt has taken over.
        """
        with self._lock:
            self.state.push(self._attempt)
            local = self._scan()
            if self._is_restarted():
                self._clear(local)
            changed = [path for path, state in local.items() if self._uploaded.get(path) != state]
            # Replaced outputs stay in the store although they are never fetched again.
            current = {path: entry for path, entry in self._index.items() if path in local or path.startswith(REPLACED)}
            deleted = self._index.keys() - current.keys()
            if not changed and not deleted:
                return False
            try:
                index = current | self._upload(changed)
            except OSError:
                return True  # a file was deleted meanwhile (a checkpoint made room for the next): scan again
            self._write(index)
            self._uploaded = local
            self._bucket.delete(*sorted(deleted, key=lambda path: (path.rpartition("/")[2] not in _COMMIT_FILES, path)))
            return True

    def _is_restarted(self) -> bool:
        """Return True if the stage now has another `made_from.json` than its output in the store."""
        name = f"{self._stage}/made_from.json"
        entry, path = self._index.get(name), self._run / name
        return entry is not None and path.is_file() and _sha256(path) != entry.sha256

    def _clear(self, local: Iterable[str]) -> None:
        """Upload replaced outputs, then delete the stage's old files, so that old and new never mix."""
        replaced = self._upload([path for path in local if path.startswith(REPLACED) and path not in self._index])
        old = [path for path in self._index if path.startswith(f"{self._stage}/")]
        self._write({path: entry for path, entry in self._index.items() if path not in old} | replaced)
        self._bucket.delete(*old)
        self._uploaded = {}

    def _upload(self, paths: Iterable[str]) -> dict[str, IndexEntry]:
        ranked = sorted(paths, key=lambda path: (_rank(path), path))
        data = [path for path in ranked if _rank(path) < 0]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            entries = dict(zip(data, pool.map(self._upload_file, data), strict=True))
        return entries | {path: self._upload_file(path) for path in ranked[len(data) :]}

    def _upload_file(self, path: str) -> IndexEntry:
        local_file = self._run / path
        size = local_file.stat().st_size
        if path == f"{self._stage}/{DONE}" and path not in self._index:
            content = local_file.read_bytes()
            if not self._bucket.write(path, content, only_new=True):
                raise UserError(
                    f"{join(self._bucket.uri, path)} was written by another attempt of {self._stage}, with another "
                    "result; let one attempt run at a time"
                )
            return IndexEntry(len(content), hashlib.sha256(content).hexdigest())
        return IndexEntry(size, self._bucket.upload(local_file, path))

    def _write(self, index: dict[str, IndexEntry]) -> None:
        check_attempt(self._bucket, self._stage, self._attempt)
        write_index(self._bucket, self._stage, self._attempt, index)
        self._index = index

    def _scan(self) -> dict[str, FileState]:
        """Return the committed local files by path.

        A commit file counts only if it existed before the other files were listed, so that all it commits is listed.
        """
        before = set(self._files())
        after = {path: _file_state(self._run / path) for path in self._files()}
        return {path: state for path, state in after.items() if state and (path in before or not _is_commit_file(path))}

    def _files(self) -> Iterator[str]:
        out = self._run / self._stage
        complete = {folder.name for folder in out.glob("checkpoint-*") if _is_complete(folder)}
        for folder, names, files in os.walk(out, followlinks=True):
            names[:] = [
                name
                for name in names
                if not name.endswith((".part", TEMPORARY_SUFFIX))
                and (not name.startswith("checkpoint-") or name in complete)
            ]
            # An image is written before the row that names it: listed after the tables, none of theirs is missed.
            names.sort(key=lambda name: name == IMAGES)
            yield from self._relative_paths(Path(folder), files)
        for root in (self._run / "replaced").glob(f"{self._stage}-*"):
            for folder, _, files in os.walk(root, followlinks=True):
                yield from self._relative_paths(Path(folder), files)
        yield from self._relative_paths(
            self._run / "tracking", [p.name for p in self._run.glob(f"tracking/{self._stage}.*")]
        )
        for path in self._run.glob("*"):
            # A report's page, or the recipe that the preflight check wrote.
            if path.is_file() and path.name not in _SHARED_FILES and ".sqlite" not in path.name:
                state = _file_state(path)
                if path.name in self._index or state != self._root.get(path.name):
                    yield from self._relative_paths(self._run, [path.name])

    def _relative_paths(self, folder: Path, files: Iterable[str]) -> Iterator[str]:
        return (
            (folder / name).relative_to(self._run).as_posix() for name in files if not name.endswith(TEMPORARY_SUFFIX)
        )


def _rank(path: str) -> int:
    name = path.rpartition("/")[2]
    return _COMMIT_FILES.index(name) if name in _COMMIT_FILES else -1


def _is_commit_file(path: str) -> bool:
    """Return True for a commit file, and for files of models and checkpoints, which belong together."""
    parts = path.split("/")
    in_model = any(part in ("model", "milestones") or part.startswith("checkpoint-") for part in parts[1:-1])
    return in_model or parts[-1] in _COMMIT_FILES


def _is_complete(checkpoint: Path) -> bool:
    try:
        return bool(json.loads((checkpoint / "trainer_state.json").read_bytes()))
    except (OSError, ValueError):
        return False


def _file_state(path: Path) -> FileState | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns)


def _state_if_current(path: Path, entry: IndexEntry) -> FileState | None:
    """Return the state of a local file that equals the store's; None for any other, which is uploaded again."""
    state = _file_state(path)
    return state if state and state.size == entry.size and _sha256(path) == entry.sha256 else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
