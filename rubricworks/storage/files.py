"""The file:// store. A file is written under a temporary name, flushed and renamed, so it is never half written."""

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rubricworks.errors import TransientError, UserError

TEMPORARY_SUFFIX = ".aside"
"""Suffix of a file that is being written; one that stays behind is of a killed process."""


_IN_URL = {ord(character): f"%{ord(character):02X}" for character in "%?#"}


def sqlite_url(path: Path, driver: str = "sqlite") -> str:
    """URL of a SQLite file for SQLAlchemy, which reads what follows `?` as options and decodes `%XX`."""
    return f"{driver}:///{str(path.absolute()).translate(_IN_URL)}"


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite URL; None for any other."""
    database = url.removeprefix("sqlite:///").partition("?")[0]
    return Path(unquote(database)).absolute() if url.startswith("sqlite:///") else None


def local_path(uri: str | os.PathLike[str]) -> Path:
    """Return the path of a file:// URI or a bare path.

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
    """Write a file so that readers, now and after a crash, see either the old or the new content.

    Raises:
        UserError: the disk is full, or the folder cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # O_EXCL: no second writer shares the file. 0o666 with the umask: the mode of any new file.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)
    except OSError as error:
        raise _user_error(error, path, len(content)) from error


def link(place: Path, target: Path) -> None:
    """Make `place` a link to the folder `target`, replacing a link, a file or a folder.

    A store has no links, so a run that is downloaded from one has a folder in the link's place. A link or a file is
    replaced atomically. While a folder is replaced, `place` does not exist for a moment.

    Raises:
        UserError: `place` cannot be written.
    """
    temporary, old = (place.with_name(f".{place.name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}") for _ in range(2))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.symlink_to(target.absolute(), target_is_directory=True)
        try:
            if place.is_dir() and not place.is_symlink():
                place.rename(old)
            temporary.replace(place)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        shutil.rmtree(old, ignore_errors=True)
        _flush_folder(place.parent)
    except OSError as error:
        raise _user_error(error, place, 0) from error


def remove_temporary_files(folder: Path) -> None:
    """Delete the temporary files of killed writers in a folder that has no other writer now."""
    for path in folder.glob(f".*{TEMPORARY_SUFFIX}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _user_error(error: OSError, path: Path, size: int) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        mount = _mount_of(path)
        return TransientError(
            f"no room on {mount}: {path} needs {size:,} bytes ({os.strerror(error.errno)}); free space and run again"
        )
    return UserError(f"cannot write {path}: {error.strerror or error}; make the folder writable and run again")


def _mount_of(path: Path) -> Path:
    folder = path.absolute().parent
    while not folder.is_mount() and folder != folder.parent:
        folder = folder.parent
    return folder


def files_digest(paths: Iterable[Path], root: Path) -> str:
    """Return the sha256 over the files' paths relative to `root` and their contents; folders are ignored."""
    total = hashlib.sha256()
    for path in sorted(path for path in paths if path.is_file()):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        total.update(path.relative_to(root).as_posix().encode() + b"\0" + content)
    return total.hexdigest()
