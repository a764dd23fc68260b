"""One stage as a process. Its standard error is shown live, all output is logged, and it ends when the run ends.

Standard output, which holds the messages of the Kubeflow executor, goes to the log alone. So do tracebacks: the user
gets one line that says what to do, and the log has the rest.
"""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from rubricworks.runtime.guard import Guard, end_group

_STRAGGLERS_S = 5.0
"""Time in which processes that a stage leaves behind may still write before they are ended."""

_OF_TORCHRUN = re.compile(r"\[rank\d+\]: |[IWE]\d{4} .* torch/distributed/")
"""Beginning of lines by which torchrun and its processes show a traceback and an exit code."""
_SUMMARY = re.compile(r"={20,}")
"""First and last line of torchrun's summary of a failure."""
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")


@dataclass(frozen=True)
class StageExit:
    """End of a stage's process."""

    code: int
    last_line: str
    """The last line on standard error: of a traceback, the exception."""

    @property
    def reason(self) -> str:
        """Reason of a failure that the stage itself could not report."""
        number = -self.code if self.code < 0 else self.code - 128
        if number == signal.SIGKILL:
            return "it was killed from outside (SIGKILL), most often because memory ran out"
        if number in set(signal.Signals):
            return f"it was ended by {signal.Signals(number).name}"
        return self.last_line or f"it ended with exit code {self.code}"


class StageProcess(Protocol):
    """Process that leads a session, which can be ended whole."""

    pid: int

    def go(self) -> None:
        """Begin, if it waits to be watched first."""

    def wait(self) -> int:
        """Exit code, once it has ended; of a signal, its negative number."""

    def poll(self) -> object:
        """Reap it if it is this process's child and dead."""


class SpawnedStage(subprocess.Popen[bytes]):
    """Start a stage in a new process."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], stdout: int, stderr: int) -> None:
        """`environment` is the whole of it; nobody is there to answer a prompt."""
        super().__init__(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
        )

    def go(self) -> None:
        """True once the process has begun."""


def run_stage_process(
    start: Callable[[int, int], StageProcess], *, log: Path, say: Callable[[str], None], guard: Guard
) -> StageExit:
    """Run a stage to its end; on any exception (Ctrl-C) end it with all of its descendants.

    Args:
        start: starts its process, given the file descriptors of its standard output and error.
        log: file that both output streams are appended to.
        say: called with each line of standard error as it comes.
        guard: ends the process if this one is killed.
    """
    with log.open("ab", buffering=0) as record:
        reading, writing = os.pipe()
        relay = _Relay(reading, record, say)
        listener = threading.Thread(target=relay.run, daemon=True)
        listener.start()
        try:
            process = start(record.fileno(), writing)
        finally:
            os.close(writing)
        guard.watch(process.pid)
        try:
            process.go()
            code = process.wait()
            listener.join(_STRAGGLERS_S)
        finally:
            end_group(process.pid, reap=process.poll)
            guard.watch(0)
            listener.join(_STRAGGLERS_S)
        return StageExit(code, relay.last_line)


@dataclass
class _Relay:
    """Copies standard error to the log, and shows its lines without tracebacks."""

    descriptor: int
    record: IO[bytes]
    say: Callable[[str], None]
    last_line: str = ""
    _in_traceback: bool = field(default=False, init=False)
    _torchrun_failed: bool = field(default=False, init=False)
    _in_summary: bool = field(default=False, init=False)

    def run(self) -> None:
        with open(self.descriptor, "rb") as stream:
            for raw in stream:
                self.record.write(raw)
                # A progress bar redraws itself within a line; its last state is shown.
                line = raw.decode(errors="replace").rstrip().rsplit("\r", 1)[-1]
                if self._is_of_torchrun(line):
                    continue
                if line.strip():
                    self.last_line = line.strip()
                if not self._is_traceback(line):
                    self._say(line)

    def _is_of_torchrun(self, line: str) -> bool:
        if self._torchrun_failed and _SUMMARY.fullmatch(line):
            self._torchrun_failed, self._in_summary = not self._in_summary, not self._in_summary
            return True
        is_its_own = bool(_OF_TORCHRUN.match(line))
        self._torchrun_failed |= is_its_own and line.startswith("E")
        return self._in_summary or is_its_own

    def _is_traceback(self, line: str) -> bool:
        if "Traceback (most recent call last)" in line:
            self._in_traceback = True
            return True
        if self._in_traceback and line.strip() and not line[0].isspace():
            self._in_traceback = False  # the exception itself ends it
            return True
        return self._in_traceback or not line.strip() or line.startswith(_CHAINED)

    def _say(self, line: str) -> None:
        try:
            self.say(line)
        except OSError:  # the terminal is gone (a closed pipe); the stage goes on, and so does its log
            self.say = lambda _: None
