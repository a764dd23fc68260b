"""Training by several processes on one pod: a process for each accelerator, joined by torchrun.

The processes run the same stage in the run's local folder, and the first finishes it there. This process trains nothing
and holds no accelerator. The model is sharded over the processes (FSDP); ACCELERATE_USE_FSDP=false in the stage's
environment keeps a copy on each.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rubricworks.errors import StoppedAtBudget, UserError
from rubricworks.kubernetes.config import TrainJobConfig
from rubricworks.kubernetes.train_job import fsdp_environment
from rubricworks.kubernetes.work import StageWork, log_line, sigterm_as_exit
from rubricworks.runtime.accelerators import ACCELERATORS_ENV
from rubricworks.runtime.stage_table import STAGES

LAST_WORDS = "RUBRICWORKS_LAST_WORDS"
"""Environment variable: file for the error of the first process that fails."""
_MAX_STOP_S = 30.0
"""Seconds for which a process, such as torchrun with its own, may end."""


def processes_here(stage: str) -> int:
    """Return the number of processes that this one must start for the stage; 0 if it runs the stage itself."""
    if not STAGES[stage].multi_process or "WORLD_SIZE" in os.environ:
        return 0
    count = int(os.environ.get(ACCELERATORS_ENV) or 0)
    return count if count > 1 else 0


def run_processes(count: int, work: StageWork) -> None:
    """Run the stage in several processes and return when all have ended.

    Raises:
        UserError: the stage failed by the user's mistake; the message is that of the first process to fail.
        RuntimeError: it failed otherwise, or a process was killed.
    """
    log_line(f"{work.stage}: trained by {count} processes")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    with tempfile.TemporaryDirectory() as folder, sigterm_as_exit():
        last_words = Path(folder) / "last_words.json"
        environment = {**fsdp_environment(TrainJobConfig()), **os.environ, LAST_WORDS: str(last_words)}
        process = subprocess.Popen([*command, "-m", "rubricworks.runtime", *work.arguments()], env=environment)
        try:
            code = process.wait()
        except BaseException:
            stop(process)
            raise
        if code:
            raise failure_of(last_words, code)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process: by SIGTERM, and by SIGKILL if it does not end in time."""
    process.terminate()
    try:
        process.wait(_MAX_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def failure_of(last_words: Path, code: int) -> Exception:
    """Return the error that a process left in its file of last words, or one with its exit code."""
    try:
        report = json.loads(last_words.read_bytes())
    except (OSError, ValueError):
        return RuntimeError(f"the stage's processes ended with {code}, and none could say why; see the log above")
    message = str(report["message"])
    if not report["ours"]:
        return RuntimeError(message)
    return StoppedAtBudget(message, report["more"]) if "more" in report else UserError(message)
