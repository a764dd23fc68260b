"""SIGKILL of a training as soon as its second checkpoint is on disk, once for each stage."""

import threading
from pathlib import Path
from types import TracebackType

import psutil

_CHECKPOINTS = 2
_POLL_S = 0.02
_STATE = "trainer_state.json"


class KillAtCheckpoint:
    """Context manager that watches the folders of stages and kills the first that has two checkpoints.

    A training that another part of the same stage follows (RLVR after SFT) is killed like the first.
    """

    def __init__(self, run: Path, stages: list[str]) -> None:
        self._run, self._stages = run, stages
        self.killed: dict[str, int] = {}
        """Stage that was killed → step of its last checkpoint."""
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
                folder = self._run / stage
                if (folder / "done.json").exists():
                    continue
                steps = sorted(_step(file.parent) for file in folder.rglob(f"checkpoint-*/{_STATE}"))
                if len(steps) >= _CHECKPOINTS and _kill(stage):
                    self.killed[stage] = steps[-1]
                    return


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
    """Whether a process is one of a training's own, and not the torchrun that started it."""
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return "rubricworks.runtime" in command and stage in command and "torch.distributed.run" not in command


def _leads_session(process: psutil.Process) -> bool:
    """Whether a process is a stage that was forked from the server of stages."""
    try:
        return "rubricworks.runs.stage_server" in process.parent().cmdline()
    except (psutil.Error, AttributeError):
        return False
