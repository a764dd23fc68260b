"""Ends a stage whose run is gone, so that nothing trains on for ever after its terminal was closed.

The guard is a small process of its own. It reads process groups from a pipe that only the run writes to. When the pipe
ends, the guard ends the group it was last told of; a run that ends in order says 0 last, one that was killed cannot.
That reaches every descendant of a stage. "Die with your parent" (PR_SET_PDEATHSIG) would not: between the run and the
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

_FAREWELLS = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0), (signal.SIGKILL, 2.0))
"""A stage is asked to stop before it is made to: each signal, and the seconds it is given."""


class Guard:
    """Started with `with`; `watch(group)` before a stage may be lost, `watch(0)` when it is over."""

    def __enter__(self) -> "Guard":
        # By path and without site-packages: it starts in 10 ms, and in a session that Ctrl-C and hang-ups do not reach.
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
    """End every process of a group, returning when none is left; `reap` collects the caller's own dead child."""
    for farewell, seconds in _FAREWELLS:
        deadline = time.monotonic() + seconds
        try:
            os.killpg(group, farewell)
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
