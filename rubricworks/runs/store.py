"""Where runs lie, a folder or a bucket, as far as listing them and taking them away needs.

A run is taken away in an order that a kill does not harm: it is marked first and its recipe goes next, so that nobody
continues half of it, and the next sweep finishes what is marked.
"""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from rubricworks.errors import UserError
from rubricworks.runs.folder_lock import is_locked
from rubricworks.storage import is_remote, join, local_path, open_bucket

PRUNED = "pruned.json"
"""Marks a run that is being taken away."""
_ASIDE = ".pruned-"


class StoredFile(NamedTuple):
    size: int
    modified: datetime


class RunStore(Protocol):
    """All runs of one place."""

    uri: str

    def names(self) -> list[str]:
        """What may be runs: each a folder."""

    def files(self, run: str) -> dict[str, StoredFile]:
        """What a run holds, by path as seen from it."""

    def read(self, run: str, path: str) -> bytes | None:
        """A file of a run; None if there is none."""

    def is_held(self, run: str) -> bool:
        """Whether a process of this machine is running it."""

    def delete(self, run: str) -> None:
        """Take a run away."""

    def finish_deleting(self) -> int:
        """Take away what a sweep that was killed had begun with; returns of how many runs."""


def open_run_store(runs: str) -> RunStore:
    """All runs of a folder, or of an s3:// URI.

    Raises:
        UserError: there is no such folder, or the store does not let us in.
    """
    if is_remote(runs):
        return _InBucket(runs)
    folder = local_path(runs)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name the folder of all runs with --runs")
    return _InFolder(folder)


class _InFolder:
    def __init__(self, folder: Path) -> None:
        self.folder, self.uri = folder.absolute(), folder.absolute().as_uri()

    def names(self) -> list[str]:
        return sorted(one.name for one in self.folder.iterdir() if one.is_dir() and not one.name.startswith("."))

    def files(self, run: str) -> dict[str, StoredFile]:
        root, found = self.folder / run, {}
        for place, _, names in os.walk(root):
            for name in names:
                path = Path(place) / name
                try:
                    told = path.lstat()
                except FileNotFoundError:  # a run that goes on replaces files
                    continue
                modified = datetime.fromtimestamp(told.st_mtime, UTC)
                found[path.relative_to(root).as_posix()] = StoredFile(told.st_size, modified)
        return found

    def read(self, run: str, path: str) -> bytes | None:
        try:
            return (self.folder / run / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_held(self, run: str) -> bool:
        return is_locked(self.folder / run)

    def delete(self, run: str) -> None:
        aside = self.folder / f"{_ASIDE}{run}"
        try:
            shutil.rmtree(aside, ignore_errors=True)
            (self.folder / run).rename(aside)
            shutil.rmtree(aside)
        except OSError as error:
            raise UserError(f"{self.folder / run} cannot be deleted: {error.strerror}; make it writable") from error

    def finish_deleting(self) -> int:
        begun = list(self.folder.glob(f"{_ASIDE}*"))
        for one in begun:
            shutil.rmtree(one, ignore_errors=True)
        return len(begun)


class _InBucket:
    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._bucket = open_bucket(uri)

    def names(self) -> list[str]:
        return self._bucket.folders()

    def files(self, run: str) -> dict[str, StoredFile]:
        return {one.key: StoredFile(one.size, one.modified) for one in self._bucket.below(run).objects()}

    def read(self, run: str, path: str) -> bytes | None:
        try:
            return self._bucket.read(join(run, path))
        except FileNotFoundError:
            return None

    def is_held(self, run: str) -> bool:
        return False

    def delete(self, run: str) -> None:
        of_run = self._bucket.below(run)
        of_run.write(PRUNED, json.dumps({"run": run}).encode())
        of_run.delete("recipe.yaml")
        of_run.delete(*(one.key for one in of_run.objects() if one.key != PRUNED))
        of_run.delete_unfinished_uploads()
        of_run.delete(PRUNED)

    def finish_deleting(self) -> int:
        begun = [name for name in self.names() if self._bucket.exists(join(name, PRUNED))]
        for name in begun:
            self.delete(name)
        return len(begun)
