"""SIGKILL of a training as soon as its second checkpoint is on disk, once for each training of a stage."""

import threading
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import psutil

_CHECKPOINTS = 2
_POLL_S = 0.02
_STATE = "trainer_state.json"


class KilledTraining(NamedTuple):
    """A training that was killed."""

    stage: str
    folder: Path
    """Folder of its checkpoints."""
    step: int
    """Step of its last checkpoint."""


class KillAtCheckpoint:
    """Context manager that watches the folders of stages and kills the first training that has two checkpoints."""

    def __init__(self, run: Path, stages: Collection[str], spared: Collection[Path]) -> None:
        """
        Args:
            spared: folders of checkpoints of trainings that were killed before.
        """
        self._run, self._stages, self._spared = run, tuple(stages), frozenset(spared)
        self.killed: KilledTraining | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "KillAtCheckpoint":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_POLL_S):
            for stage in self._stages:
                for folder, steps in self._checkpoints(stage).items():
                    if len(steps) >= _CHECKPOINTS and _kill(stage):
                        self.killed = KilledTraining(stage, folder, max(steps))
                        return

    def _checkpoints(self, stage: str) -> dict[Path, list[int]]:
        """Folder of checkpoints → their steps, of trainings that are to be killed."""
        out = self._run / stage
        steps: defaultdict[Path, list[int]] = defaultdict(list)
        if not (out / "done.json").exists():
            for file in out.rglob(f"checkpoint-*/{_STATE}"):
                folder = file.parent.parent
                if folder not in self._spared and not (folder / "model").exists():
                    steps[folder].append(_step(file.parent))
        return steps


def _step(checkpoint: Path) -> int:
    number = checkpoint.name.removeprefix("checkpoint-")
    return int(number) if number.isdigit() else 0


def _kill(stage: str) -> bool:
    """Kill the last process of a training, or the stage's own if it has no other; the rest ends with it."""
    descendants = psutil.Process().children(recursive=True)
    workers = [process for process in descendants if _runs(process, stage)]
    leaders = [process for process in descendants if _leads_session(process)]
    for process in workers[-1:] or leaders[-1:]:
        process.kill()
        return True
    return False


def _runs(process: psutil.Process, stage: str) -> bool:
    """Return True for a process of a training, and False for the torchrun that started it."""
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return "rubricworks.runtime" in command and stage in command and "torch.distributed.run" not in command


def _leads_session(process: psutil.Process) -> bool:
    """Return True for a stage that was forked from the server of stages."""
    try:
        return "rubricworks.runs.stage_server" in process.parent().cmdline()
    except (psutil.Error, AttributeError):
        return False
