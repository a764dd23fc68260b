"""Parts of a stage on one machine: a process with accelerators of its own for each (`fan_out`).

The model of such a stage needs few accelerators, and the machine has more: each process draws the responses of its own
samples. The processes read and write the run's local folder, and call the served models that the stage has.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.kubernetes.work import StageWork, sigterm_as_exit
from rubricworks.runtime.accelerators import ACCELERATORS_ENV
from rubricworks.runtime.pods.processes import LAST_WORDS, failure_of, stop
from rubricworks.training.processes import trains_on_cpu

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_POLL_S = 0.2


def parts_here(stage: str, each: int) -> int:
    """Return the number of processes that the accelerators here suffice for.

    Args:
        each: accelerators that one process needs.
    Raises:
        UserError: they cannot be divided evenly.
    """
    count = int(os.environ.get(ACCELERATORS_ENV) or 0)
    if count <= each:
        return 1
    if count % each:
        raise UserError(
            f"{stage}: {count} accelerators cannot be divided among engines of {each} each (engine.tensor_parallel); "
            f"give the stage a multiple of {each}"
        )
    return count // each


def run_parts(count: int, each: int, work: StageWork, on_progress: Callable[[int], None]) -> None:
    """Run all parts at once and return when they are done; the first that fails ends the others.

    Args:
        each: accelerators of one process.
        work: the stage's work in local folders.
        on_progress: called with the number of parts done, when it changes.
    Raises:
        UserError: a part failed by the user's mistake; the message is the part's own.
        RuntimeError: it failed otherwise, or was killed.
    """
    with tempfile.TemporaryDirectory() as folder, sigterm_as_exit():
        words = [Path(folder) / f"{index}.json" for index in range(count)]
        with _started(count, each, work, words) as processes:
            done = 0
            while done < count:
                codes = [process.poll() for process in processes]
                for code, path in zip(codes, words, strict=True):
                    if code:
                        raise failure_of(path, code)
                if codes.count(0) > done:
                    done = codes.count(0)
                    on_progress(done)
                time.sleep(_POLL_S)


@contextmanager
def _started(count: int, each: int, work: StageWork, words: list[Path]) -> Iterator[list["subprocess.Popen[bytes]"]]:
    command = [sys.executable, "-m", "rubricworks.runtime", *work.arguments(), "--parts", str(count)]
    visible = os.environ.get(_VISIBLE)
    devices = visible.split(",") if visible else [str(number) for number in range(count * each)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for index, path in enumerate(words):
            own = {"JOB_COMPLETION_INDEX": str(index), LAST_WORDS: str(path), ACCELERATORS_ENV: str(each)}
            if not trains_on_cpu():
                own[_VISIBLE] = ",".join(devices[index * each : (index + 1) * each])
            processes.append(subprocess.Popen(command, env={**os.environ, **own}))
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            stop(process)
