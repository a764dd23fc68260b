"""A `vllm` on the path that is a small server, and the record of its starts and chats."""

import json
import os
from pathlib import Path

import psutil
import pytest
import vllm_stand_in


class StandIn:
    """Starts and chats of the program, over all of its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def starts(self) -> list[list]:
        """Process id and arguments of each start."""
        path = self.folder / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    @property
    def chats(self) -> list[int]:
        """Process that answered each chat."""
        path = self.folder / "chats"
        return [int(line) for line in path.read_text().split()] if path.is_file() else []

    def left(self) -> list[int]:
        """Processes that still run, of servers and of their children."""
        groups = {pid for pid, *_ in self.starts}
        running = []
        for process in psutil.process_iter():
            try:
                if os.getpgid(process.pid) in groups and process.status() != psutil.STATUS_ZOMBIE:
                    running.append(process.pid)
            except (ProcessLookupError, psutil.NoSuchProcess):
                pass
        return running


@pytest.fixture
def vllm(tmp_path, monkeypatch) -> StandIn:
    folder = vllm_stand_in.install(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STARTS", str(folder / "starts"))
    monkeypatch.setenv("CHATS", str(folder / "chats"))
    return StandIn(folder)
