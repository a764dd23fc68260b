"""The quickstart in small, through the command line, in a process of its own that a test may kill."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import warm_programs

TINY = {
    "world.scenes": 48,
    "data.held_out": 8,
    "data.warm_up": 16,
    "data.shard_size": 16,
    "warm_up.sft.steps": 6,
    "warm_up.sft.batch_size": 16,
    "warm_up.sft.save_every": 2,
    "committee.shard_size": 8,
    "student.batch_size": 8,
    "student.max_new_tokens": 16,
    "rubric.shard_size": 8,
    "policy.algorithm.steps": 6,
    "policy.algorithm.save_every": 2,
    "policy.algorithm.rollouts.prompts_per_step": 2,
    "policy.algorithm.rollouts.group_size": 4,
    "policy.algorithm.rollouts.max_new_tokens": 16,
    "policy.algorithm.optimizer.learning_rate": 1e-3,
    "policy.algorithm.watch.probe.every": 2,
    "evaluation.batch_size": 4,
    "evaluation.max_new_tokens": 16,
}
"""Every table has several shards, every training several checkpoints. The rate is high, so that six steps move weights
that rewards of another order would move elsewhere.
"""

_MARK = "RUBRICWORKS_TEST_RUN"
QUIET = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}


def settings(values: dict[str, object]) -> list[str]:
    return [argument for name, value in values.items() for argument in ("--set", f"{name}={value}")]


def finish_run(runs: Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
    """Output of `rubricworks run …`, which must succeed; stages are forked from loaded libraries (`warm_programs`)."""
    runs.mkdir(parents=True, exist_ok=True)
    file = runs / f".{uuid.uuid4().hex}.out"
    with file.open("wb") as out:
        program = warm_programs.start(
            "warm_cli",
            ["run", *arguments, "--runs", str(runs)],
            env={**os.environ, **QUIET, **(env or {})},
            cwd=runs,
            stdout=out.fileno(),
            stderr=out.fileno(),
        )
        code = program.wait()
    output = file.read_text(errors="replace")
    assert code == 0, output
    return output


class Run:
    """`rubricworks run …` as a process that leads a session; its standard error is collected."""

    def __init__(
        self, runs: Path, *arguments: str, command: Sequence[str] = (sys.executable, "-m", "rubricworks.cli"), **options
    ) -> None:
        """
        Args:
            runs: the folder of all runs, and of what this process says.
            options: `env` adds to the environment, `place` names another place for the runs; others are for Popen.
        """
        self.mark = uuid.uuid4().hex
        self._out = runs / f".{self.mark}.out"
        runs.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **QUIET, **options.pop("env", {}), _MARK: self.mark}
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [*command, "run", *arguments, "--runs", options.pop("place", str(runs))],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                **options,
            )

    @property
    def output(self) -> str:
        return self._out.read_text(errors="replace")

    def finish(self) -> str:
        """Output of the program, which must succeed and leave no process running."""
        code = self.process.wait()
        assert code == 0, self.output
        self.wait_until_gone()
        return self.output

    def stage(self, name: str) -> list[int]:
        """Process id of a stage, which leads the session of the processes that write to the stage's log."""
        return [
            pid for pid in self.processes() if _opened(pid, 1).endswith(f"/logs/{name}.log") and os.getsid(pid) == pid
        ]

    def processes(self) -> list[int]:
        """Every living process that was started by this run, at whatever remove."""
        mine = f"{_MARK}={self.mark}"
        return [pid for pid in _pids() if mine in _text(pid, "environ").split("\0")]

    def wait_for_one(self, moments: Mapping[str, Callable[[], bool]]) -> str:
        """The name of the first moment that comes, the instant it comes."""
        while True:
            for name, has_come in moments.items():
                if has_come():
                    return name
            assert self.process.poll() is None, f"it ended before {', '.join(moments)}:\n{self.output}"
            time.sleep(0.002)

    def wait_until_gone(self, seconds: float = 300.0) -> None:
        deadline = time.monotonic() + seconds
        while left := self.processes():
            assert time.monotonic() < deadline, [_text(pid, "cmdline") for pid in left]
            time.sleep(0.05)

    def kill_stage(self, name: str) -> None:
        """Kill -9 a stage's own process; the run above it lives, and says what happened."""
        for pid in self.stage(name):
            os.kill(pid, signal.SIGKILL)

    def kill_run(self) -> None:
        """Kill -9 the run's process group, as closing a machine's session does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def kill_everything(self) -> None:
        """Kill -9 every process of the run, as a machine that goes down does."""
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _text(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:  # it has ended, or is another user's
        return ""


def _opened(pid: int, descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    except OSError:
        return ""
