"""The file:// store. Files are written aside, flushed and renamed: a kill or a full disk never leaves half of one."""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rubricworks.errors import UserError

ASIDE_SUFFIX = ".aside"
"""Ends the name of a file that is being written; one that stays behind belongs to a process that was killed."""


def local_path(uri: str | os.PathLike[str]) -> Path:
    """The path that a file:// URI or a bare path names.

    Raises:
        UserError: the URI has another scheme or another host.
    """
    text = os.fspath(uri)
    if "://" not in text:
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme == "s3":
        raise UserError(f"{text}: a folder or a file:// URI is needed here; s3:// is for runs and for images")
    if parts.scheme != "file":
        raise UserError(f"{text}: {parts.scheme}:// is not a storage scheme; give a folder or a file:// URI")
    if parts.netloc not in ("", "localhost"):
        raise UserError(
            f"{text}: a file on host {parts.netloc!r} cannot be opened; write file:///path with three slashes"
        )
    return Path(unquote(parts.path))


def write_atomic(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that readers, now and after a crash, see the old content or the new one and nothing between.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    path = Path(path)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{ASIDE_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_EXCL and the umask: a second writer never shares the file, and the mode is that of any new file.
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)
    except OSError as error:
        raise _user_error(error, path, len(content)) from error


def link(place: Path, target: Path) -> None:
    """Make `place` a link to a folder, whatever stands there: a link, a file, or a folder.

    A store knows no links: in a run that went there and came back, a folder stands where the link was. A link or a file
    is replaced at once; between a folder and the link that follows it there is a moment without either.

    Raises:
        UserError: the place cannot be written.
    """
    aside, old = (place.with_name(f".{place.name}.{secrets.token_hex(4)}{ASIDE_SUFFIX}") for _ in range(2))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside.symlink_to(target.absolute(), target_is_directory=True)
        try:
            if place.is_dir() and not place.is_symlink():
                place.rename(old)
            aside.replace(place)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        shutil.rmtree(old, ignore_errors=True)
        _flush_folder(place.parent)
    except OSError as error:
        raise _user_error(error, place, 0) from error


def remove_asides(folder: Path) -> None:
    """Delete what killed writers left in a folder; only for a folder that has no other writer now."""
    for aside in folder.glob(f".*{ASIDE_SUFFIX}"):
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside)
        else:
            aside.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _user_error(error: OSError, path: Path, size: int) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        mount = _mount_of(path)
        return UserError(
            f"no room on {mount}: {path} needs {size:,} bytes ({os.strerror(error.errno)}); free space and run again"
        )
    return UserError(f"cannot write {path}: {error.strerror or error}; make the folder writable and run again")


def _mount_of(path: Path) -> Path:
    place = path.absolute().parent
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return place


def files_digest(paths: Iterable[Path], root: Path) -> str:
    """sha256 over the names, as seen from `root`, and the contents of files; folders among the paths do not count."""
    total = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + content)
    return total.hexdigest()
