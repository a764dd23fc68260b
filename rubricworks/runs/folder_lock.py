"""The lock of a folder that a command works in: one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.storage.confined_files import open_confined

LOCK_FILE = "lock"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Make a folder if need be and hold it; one in which nothing was made is taken away again.

    The kernel releases the lock when the process ends, however it ends.

    Raises:
        UserError: the folder cannot be written, or another process holds it.
    """
    new_parent = not folder.parent.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Through no link, and not emptied: a folder may come from somebody else.
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}; give another folder with --runs") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder.name} is running already; wait for it, or stop that process first") from None
        try:
            yield
        finally:
            if os.listdir(folder) == [LOCK_FILE]:
                (folder / LOCK_FILE).unlink()
                folder.rmdir()
                if new_parent:
                    with suppress(OSError):  # another run has begun there meanwhile
                        folder.parent.rmdir()
    finally:
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Return True if a process of this machine holds the folder.

    Raises:
        UnreadableFile: something else has the lock's name.
    """
    try:
        with open_confined(folder, LOCK_FILE) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
