"""A stage's folder as it grows, kept in the store: what a pod that dies leaves for the one that comes after it.

Every few seconds what is new goes up, data before the manifests that vouch for it, and then one object, the index,
which says which files belong together. A later attempt takes up what the index names and nothing else, so it never
sees half a checkpoint, whenever the pod was killed. What was deleted here goes last.
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

from rubricworks.errors import UserError
from rubricworks.runtime.job import DONE
from rubricworks.runtime.store.attempts import ASIDE, File, check_attempt, write_index
from rubricworks.runtime.store.run_state import ERROR_FILE, LEDGER_FILE, RunState
from rubricworks.storage import Bucket, join
from rubricworks.storage.files import ASIDE_SUFFIX

log = logging.getLogger(__name__)

PUSH_EVERY_S = 5.0
_AT_ONCE = 4
_ROUNDS = 20
_VOUCH = ("trainer_state.json", "manifest.json", DONE)
"""In the order in which they go up, after everything else."""
_NOT_OURS = (ERROR_FILE, LEDGER_FILE, "lock")


class Seen(NamedTuple):
    """A file as it stands here."""

    size: int
    changed: int


class Mirror:
    """Keeps one stage of one attempt; `push` may be called at any time, also while the stage writes."""

    def __init__(
        self, bucket: Bucket, run: Path, stage: str, attempt: str, index: dict[str, File], state: RunState
    ) -> None:
        """
        Args:
            bucket: of the run.
            run: its folder here.
            attempt: names this attempt; one that begins later takes the stage over.
            index: what an earlier attempt had kept.
            state: of the same stage, fetched.
        """
        self._bucket, self._run, self._stage, self._attempt = bucket, run, stage, attempt
        self.state, self._index = state, index
        self._seen = {path: seen for path, file in index.items() if (seen := _seen_as(run / path, file))}
        self._root = {path.name: _seen(path) for path in run.glob("*") if path.is_file()}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Push every few seconds from a thread; a store in trouble is told of once, and tried again."""
        every = float(os.environ.get("RUBRICWORKS_PUSH_SECONDS") or PUSH_EVERY_S)
        told: set[str] = set()

        def keep_on() -> None:
            while not self._ended.wait(every):
                try:
                    self.push()
                    self.state.learn_spending()
                except Exception as error:  # the last push, which the stage waits for, decides
                    if str(error) not in told:
                        told.add(str(error))
                        log.warning("storage: %s. The stage goes on, and it is tried again", error)

        self._thread = threading.Thread(target=keep_on, name="mirror", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for a push that is under way."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def finish(self) -> None:
        """The last push of a stage that is done. Raises as `push` does."""
        self.stop()
        for _ in range(_ROUNDS):
            if not self.push():
                self.state.push_error()
                self._put_answers_together()
                return
        raise UserError(f"{self._run / self._stage} keeps changing, or cannot be read; run again")

    def _put_answers_together(self) -> None:
        try:
            self.state.put_answers_together(self._attempt)
        except (UserError, FileNotFoundError) as error:  # all of them are kept, and that is what counts
            log.warning("storage: %s. The answers stay in many pieces", error)

    def give_up(self) -> None:
        """The last push of a stage that failed, its error first. Raises as `push` does."""
        self.stop()
        check_attempt(self._bucket, self._stage, self._attempt)
        self.state.push_error()
        self.finish()

    def push(self) -> bool:
        """Bring the store up to what is here; says whether anything was new.

        Raises:
            UserError: the store cannot be written for longer than its patience, or a later attempt has the stage now.
        """
        with self._lock:
            self.state.push(self._attempt)
            there = self._scan()
            if self._begun_anew():
                self._clear(there)
            fresh = [path for path, seen in there.items() if self._seen.get(path) != seen]
            # What was set aside stays in the store, and is not fetched again.
            kept = {path: file for path, file in self._index.items() if path in there or path.startswith(ASIDE)}
            gone = self._index.keys() - kept.keys()
            if not fresh and not gone:
                return False
            try:
                index = kept | self._upload(fresh)
            except OSError:
                return True  # a checkpoint made room for the next; what is here now is another matter
            self._write(index)
            self._seen = there
            self._bucket.delete(*sorted(gone, key=lambda path: (path.rpartition("/")[2] not in _VOUCH, path)))
            return True

    def _begun_anew(self) -> bool:
        """Whether what the store has was made from something else."""
        plan = f"{self._stage}/made_from.json"
        kept, path = self._index.get(plan), self._run / plan
        return kept is not None and path.is_file() and _sha256(path) != kept.sha256

    def _clear(self, there: Iterable[str]) -> None:
        """Keep what was set aside here, then drop it where it was, so that old and new never mix."""
        aside = self._upload([path for path in there if path.startswith(ASIDE) and path not in self._index])
        old = [path for path in self._index if path.startswith(f"{self._stage}/")]
        self._write({path: file for path, file in self._index.items() if path not in old} | aside)
        self._bucket.delete(*old)
        self._seen = {}

    def _upload(self, paths: Iterable[str]) -> dict[str, File]:
        ranked = sorted(paths, key=lambda path: (_rank(path), path))
        first = [path for path in ranked if _rank(path) < 0]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            done = dict(zip(first, pool.map(self._upload_one, first), strict=True))
        return done | {path: self._upload_one(path) for path in ranked[len(first) :]}

    def _upload_one(self, path: str) -> File:
        place = self._run / path
        size = place.stat().st_size
        if path == f"{self._stage}/{DONE}" and path not in self._index:
            content = place.read_bytes()
            if not self._bucket.write(path, content, only_new=True):
                raise UserError(
                    f"{join(self._bucket.uri, path)} was written by another attempt of {self._stage}, with another "
                    "result; let one attempt run at a time"
                )
            return File(len(content), hashlib.sha256(content).hexdigest())
        return File(size, self._bucket.upload(place, path))

    def _write(self, index: dict[str, File]) -> None:
        check_attempt(self._bucket, self._stage, self._attempt)
        write_index(self._bucket, self._stage, self._attempt, index)
        self._index = index

    def _scan(self) -> dict[str, Seen]:
        """What is committed here. What vouches for something else counts only if it was there before the rest was
        looked at, so that all it vouches for is seen."""
        before = set(self._files())
        after = {path: _seen(self._run / path) for path in self._files()}
        return {path: seen for path, seen in after.items() if seen and (path in before or not _vouches(path))}

    def _files(self) -> Iterator[str]:
        out = self._run / self._stage
        whole = {folder.name for folder in out.glob("checkpoint-*") if _is_whole(folder)}
        for folder, names, files in os.walk(out, followlinks=True):
            names[:] = [
                name
                for name in names
                if not name.endswith((".part", ASIDE_SUFFIX)) and (not name.startswith("checkpoint-") or name in whole)
            ]
            yield from self._named(Path(folder), files)
        for root in (self._run / "replaced").glob(f"{self._stage}-*"):
            for folder, _, files in os.walk(root, followlinks=True):
                yield from self._named(Path(folder), files)
        yield from self._named(self._run / "tracking", [p.name for p in self._run.glob(f"tracking/{self._stage}.*")])
        for path in self._run.glob("*"):
            # The page of a report, or the recipe that a check wrote down.
            if path.is_file() and path.name not in _NOT_OURS and ".sqlite" not in path.name:
                seen = _seen(path)
                if path.name in self._index or seen != self._root.get(path.name):
                    yield from self._named(self._run, [path.name])

    def _named(self, folder: Path, files: Iterable[str]) -> Iterator[str]:
        return ((folder / name).relative_to(self._run).as_posix() for name in files if not name.endswith(ASIDE_SUFFIX))


def _rank(path: str) -> int:
    name = path.rpartition("/")[2]
    return _VOUCH.index(name) if name in _VOUCH else -1


def _vouches(path: str) -> bool:
    parts = path.split("/")
    within = any(part in ("model", "milestones") or part.startswith("checkpoint-") for part in parts[1:-1])
    return within or parts[-1] in _VOUCH


def _is_whole(checkpoint: Path) -> bool:
    try:
        return bool(json.loads((checkpoint / "trainer_state.json").read_bytes()))
    except (OSError, ValueError):
        return False


def _seen(path: Path) -> Seen | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return Seen(status.st_size, status.st_mtime_ns)


def _seen_as(path: Path, file: File) -> Seen | None:
    """A file that is here as the store has it; what a kept workspace has beyond that goes up again."""
    seen = _seen(path)
    return seen if seen and seen.size == file.size and _sha256(path) == file.sha256 else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
