"""A guard process that ends a stage after its run has ended, for example because the terminal was closed.

The guard reads process groups from a pipe that only the run writes to. When the pipe closes, the guard ends the last
group that it read; a run that ends in order writes 0 last, one that was killed cannot. That reaches every descendant of
a stage. "Die with your parent" (PR_SET_PDEATHSIG) would not: between the run and the
stage stands the shell that Kubeflow Pipelines starts.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType

_STOP_SIGNALS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 2.0))
"""Signals in the order in which they are sent, each with the seconds to wait for the stage to end."""


class Guard:
    """Context manager of the guard process: `watch(group)` when a stage starts, `watch(0)` when it has ended."""

    def __enter__(self) -> "Guard":
        # By path and without site-packages it starts in 10 ms. Ctrl-C and hang-ups do not reach a session of its own.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def watch(self, group: int) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{group}\n".encode())
            self._process.stdin.flush()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.watch(0)
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def end_group(group: int, *, reap: Callable[[], object] = lambda: None) -> None:
    """End every process of a group and return when none is left.

    Args:
        reap: collects the caller's own dead child.
    """
    for stop_signal, seconds in _STOP_SIGNALS:
        deadline = time.monotonic() + seconds
        try:
            os.killpg(group, stop_signal)
            while time.monotonic() < deadline:
                reap()
                os.killpg(group, 0)
                time.sleep(0.02)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
            return


def main() -> None:
    group = 0
    for line in sys.stdin:
        group = int(line)
    if group:
        end_group(group)


if __name__ == "__main__":
    main()
