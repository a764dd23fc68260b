"""Python programs in processes of their own, forked from one where the imports are done.

A process like any other, which can be killed and ends with its exit handlers, without the half second of imports that a
new interpreter takes.
"""

import atexit
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from typing import IO

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["forked", "rubricworks.llm", "rubricworks.stages.data.prepare_questions"])


class Forked:
    """A running program, with the methods of `subprocess.Popen` that tests need; text on its input and output."""

    def __init__(self, program: str, *arguments: object) -> None:
        reader, self._stdin = _CONTEXT.Pipe(duplex=False)
        self._stdout, writer = _CONTEXT.Pipe(duplex=False)
        job = (program, list(map(str, arguments)), reader, writer)
        self._process = _CONTEXT.Process(target=_run, args=job, daemon=True)
        self._process.start()
        reader.close()
        writer.close()
        self.stdin: IO[str] = os.fdopen(self._stdin.fileno(), "w", closefd=False)
        self.stdout: IO[str] = os.fdopen(self._stdout.fileno(), closefd=False)

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = 60) -> int:
        """Its exit code; negative, the signal that ended it."""
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"it still runs after {timeout} s"
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def end_input(self) -> None:
        self._stdin.close()

    def output(self, timeout: float = 60) -> str:
        """All that it writes until it ends, well."""
        report = self.stdout.read()
        assert self.wait(timeout) == 0
        return report


def _run(program: str, arguments: list[str], stdin: Connection, stdout: Connection) -> None:
    os.dup2(stdin.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    stdin.close()
    stdout.close()
    sys.stdin = os.fdopen(0, closefd=False)
    sys.argv = ["-c", *arguments]
    try:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends its processes without
