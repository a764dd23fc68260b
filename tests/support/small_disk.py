"""A disk of a megabyte or so, to fill up and to make read-only: root on Linux can mount one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs and what can be done to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, leaving: int = 0) -> None:
        """Take all its room but so many bytes."""
        with (self.path / "ballast").open("ab") as ballast:
            state = os.statvfs(self.path)
            ballast.write(b"\0" * max(0, state.f_bavail * state.f_frsize - leaving))

    def make_room(self) -> None:
        (self.path / "ballast").unlink()

    def read_only(self, yes: bool = True) -> None:
        _mount("-o", "remount,ro" if yes else "remount,rw", str(self.path))


@contextmanager
def small_disk(path: Path, size: str = "1m") -> Iterator[SmallDisk]:
    """Mounted for as long as the block lasts; skips the test where that is not allowed."""
    path.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root on Linux can mount a small disk")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
