"""Files of a folder that somebody else may have written: regular ones inside it, and no other.

    content = read_confined(run, "score/scores.json", 1 << 20)

Every part of the path is opened in the folder that holds it, and none may be a link: a link of a run folder can lead
to any file of its reader. A pipe or a device would block the reader, or never end.
"""

import os
import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from rubricworks.errors import UserError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


_LONGEST_PROBLEM = 600


class UnreadableFile(UserError):
    """A file is there and cannot be read as what it should be."""

    def __init__(self, problem: str) -> None:
        """`problem` may quote the file, which may hold anything."""
        super().__init__(problem if len(problem) <= _LONGEST_PROBLEM else f"{problem[:_LONGEST_PROBLEM]}…")


def open_confined(folder: Path, path: str) -> BinaryIO:
    """Open a file by its path below a folder.

    Raises:
        FileNotFoundError: there is none.
        UnreadableFile: it is a link, lies behind one, is no regular file, or may not be read.
    """
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or parts[0] == "/" or "\0" in path:
        raise FileNotFoundError(path)
    name = f"{folder.name}/{path}"
    try:
        place = os.open(folder, _FOLDER)
        try:
            for part in parts[:-1]:
                inner = os.open(part, _FOLDER, dir_fd=place)
                os.close(place)
                place = inner
            descriptor = os.open(parts[-1], _FILE, dir_fd=place)
        finally:
            os.close(place)
    except OSError as error:
        if (link := _first_link(folder, parts)) is not None:
            problem = "is a link" if link == name else f"lies behind the link {link}"
            raise UnreadableFile(f"{name} {problem}; put the file itself there") from error
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise FileNotFoundError(path) from error
        raise UnreadableFile(f"{name}: {error.strerror}; make it readable") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UnreadableFile(f"{name} is no regular file; remove it")
    return os.fdopen(descriptor, "rb")


def read_confined(folder: Path, path: str, most: int) -> bytes:
    """Content of a file by its path below a folder. Raises as `open_confined` does, and if it is longer than `most`."""
    with open_confined(folder, path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UnreadableFile(f"{folder.name}/{path} has {size >> 20} MB; at most {most >> 20} MB are read")
        return file.read(most)


def _first_link(folder: Path, parts: tuple[str, ...]) -> str | None:
    place = folder
    for part in ("", *parts):
        place /= part
        if place.is_symlink():
            return place.relative_to(folder.parent).as_posix()
    return None
