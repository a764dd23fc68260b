"""All runs of a folder or a bucket: listing, reading and deleting them.

A run may come from somebody else: its files are read through `open_confined` alone, and what is wrong with them is an
`UnreadableFile`, which concerns this run and no other. Any other error is one of the whole place.

A run is deleted in an order that a kill does not harm: it is marked first and its recipe goes next, so that nobody
resumes half of it, and the next pruning finishes what is marked.
"""

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from rubricworks.errors import TransientError, UserError
from rubricworks.runs.folder_lock import is_locked
from rubricworks.storage import is_remote, join, local_path, open_bucket
from rubricworks.storage.confined_files import UnreadableFile, open_confined, read_confined
from rubricworks.storage.plain_json import plain_text
from rubricworks.storage.s3_settings import settings_from_environment

P = ParamSpec("P")
T = TypeVar("T")
PRUNED = "pruned.json"
"""Marker of a run that is being deleted."""
_ASIDE = ".pruned-"
_LARGEST = {".json": 4 << 20, ".yaml": 1 << 20, ".yml": 1 << 20, ".jsonl": 16 << 20}
"""Suffix → bytes of the largest file that is read as a whole: what Python makes of a text takes up to forty times as
much memory.
"""
_LARGEST_OTHER = 128 << 20
_EPOCH = datetime.fromtimestamp(0, UTC)


class StoredFile(NamedTuple):
    """Size and time of a run's file."""

    size: int
    modified: datetime


class RunStore(Protocol):
    """All runs of one place."""

    uri: str

    def names(self, rest: float = 0.0) -> list[str]:
        """Names of the folders, each of which may be a run; `rest` as of `Bucket.folders`."""

    def files(self, run: str) -> dict[str, StoredFile]:
        """Files of a run by their path below its folder.

        Raises:
            UnreadableFile: the folder cannot be listed; `read` and its siblings raise it of a file.
        """

    def read(self, run: str, path: str) -> bytes | None:
        """Content of a run's file; None if it does not exist. A file too large for its kind raises `UnreadableFile`."""

    def read_end(self, run: str, path: str, begin: int, most: int) -> tuple[bytes, int] | None:
        """Bytes of a run's file from an offset on, and the offset of the first, as `Bucket.read_end`; None if it does
        not exist.
        """

    def read_range(self, run: str, path: str, start: int, length: int) -> bytes | None:
        """A range of bytes of a run's file; None if it does not exist."""

    def is_running(self, run: str) -> bool:
        """Return True if a process of this machine is running it; see `records.is_going` for other machines."""

    def delete(self, run: str) -> None:
        """Delete a run."""

    def finish_deleting(self) -> int:
        """Delete the rest of runs whose deletion was killed; return their number."""


def open_run_store(runs: str, *, patience_s: float = math.inf) -> RunStore:
    """Open the store of all runs: a folder or an s3:// URI.

    Args:
        patience_s: seconds for which a bucket that fails is asked again at most; the settings may say fewer.
    Raises:
        UserError: there is no such folder, or the store does not let us in.
    """
    if is_remote(runs):
        return _BucketStore(runs, patience_s)
    folder = local_path(runs)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; name the folder of all runs with --runs")
    return _FolderStore(folder)


class _FolderStore:
    def __init__(self, folder: Path) -> None:
        self.folder, self.uri = folder.absolute(), folder.absolute().as_uri()

    def names(self, rest: float = 0.0) -> list[str]:
        with os.scandir(self.folder) as entries:
            names = [entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]
        return sorted(name for name in names if _is_text(name))

    def files(self, run: str) -> dict[str, StoredFile]:
        root, files = self.folder / run, {}
        if root.is_symlink():
            raise UnreadableFile(f"{run} is a link; move the folder itself here")
        for place, _, names in os.walk(root, onerror=_raise_unlisted):
            for name in names:
                path = Path(place) / name
                try:
                    status = path.lstat()
                except FileNotFoundError:  # a run in progress replaces files
                    continue
                if _is_text(key := path.relative_to(root).as_posix()):
                    files[key] = StoredFile(status.st_size, _time(status.st_mtime))
        return files

    def read(self, run: str, path: str) -> bytes | None:
        try:
            return read_confined(self.folder / run, path, _most(path))
        except FileNotFoundError:
            return None

    def read_end(self, run: str, path: str, begin: int, most: int) -> tuple[bytes, int] | None:
        try:
            with open_confined(self.folder / run, path) as file:
                size = file.seek(0, os.SEEK_END)
                start = file.seek(max(begin if begin <= size else 0, size - most))
                return file.read(size - start), start
        except FileNotFoundError:
            return None

    def read_range(self, run: str, path: str, start: int, length: int) -> bytes | None:
        try:
            with open_confined(self.folder / run, path) as file:
                file.seek(start)
                return file.read(length)
        except FileNotFoundError:
            return None

    def is_running(self, run: str) -> bool:
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
        rests = list(self.folder.glob(f"{_ASIDE}*"))
        for rest in rests:
            shutil.rmtree(rest, ignore_errors=True)
        return len(rests)


def _most(path: str) -> int:
    return _LARGEST.get(PurePosixPath(path).suffix, _LARGEST_OTHER)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_text(name: str) -> bool:
    """Return False for a name in no known encoding, which no page could show."""
    return plain_text(name) == name


def _time(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return _EPOCH


def _raise_unlisted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a run in progress replaces folders
        raise UnreadableFile(f"{error.filename} cannot be listed: {error.strerror}; make it readable") from error


class _BucketStore:
    def __init__(self, uri: str, patience_s: float) -> None:
        settings = settings_from_environment()
        self.uri = uri.rstrip("/")
        self._bucket = open_bucket(uri, replace(settings, patience_s=min(settings.patience_s, patience_s)))

    def names(self, rest: float = 0.0) -> list[str]:
        return self._bucket.folders(rest)

    def files(self, run: str) -> dict[str, StoredFile]:
        return {item.key: StoredFile(item.size, item.modified) for item in self._bucket.below(run).objects()}

    def read(self, run: str, path: str) -> bytes | None:
        return _of_this_run(self._bucket.read, join(run, path), _most(path))

    def read_end(self, run: str, path: str, begin: int, most: int) -> tuple[bytes, int] | None:
        return _of_this_run(self._bucket.read_end, join(run, path), begin, most)

    def read_range(self, run: str, path: str, start: int, length: int) -> bytes | None:
        return _of_this_run(self._bucket.read_range, join(run, path), start, length)

    def is_running(self, run: str) -> bool:
        return False

    def delete(self, run: str) -> None:
        folder = self._bucket.below(run)
        folder.write(PRUNED, json.dumps({"run": run}).encode())
        folder.delete("recipe.yaml")
        folder.delete(*(item.key for item in folder.objects() if item.key != PRUNED))
        folder.delete_unfinished_uploads()
        folder.delete(PRUNED)

    def finish_deleting(self) -> int:
        marked = [name for name in self.names() if self._bucket.exists(join(name, PRUNED))]
        for name in marked:
            self.delete(name)
        return len(marked)


def _of_this_run(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Read from a bucket; None if the object does not exist."""
    try:
        return read(*args, **kwargs)
    except FileNotFoundError:
        return None
    except TransientError:
        raise
    except UserError as error:  # damaged, or not for us
        raise UnreadableFile(str(error)) from error
