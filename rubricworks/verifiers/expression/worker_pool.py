"""The worker process seen from the program that asks: started when needed, one question at a time, replaced when lost.

Any thread may ask, under a running event loop too (the call blocks). The process is started by exec, never by fork of
this program, and ends with it.
"""

import atexit
import contextlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Literal

from rubricworks.errors import UserError

Outcome = Literal["equal", "different", "target unreadable", "answer unreadable", "target late", "answer late"]

_START_SECONDS = 120.0
_GRACE = 2.0
"""Seconds beyond the time limit after which the worker itself must be broken."""
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rubricworks.verifiers.expression.worker import main
main()
"""
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR", "SYSTEMROOT")
_OUTCOMES: dict[str, Outcome] = {
    "yes": "equal",
    "no": "different",
    "target": "target unreadable",
    "answer": "answer unreadable",
}


class Worker:
    """One worker process and the lock around it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._number = 0
        self._rest = b""
        self._closed = False

    def compare(self, target: str, predict: str, seconds: float) -> Outcome:
        """Whether the two are equal, or why that is not known.

        Raises:
            UserError: math-verify is missing, or the worker does not start.
        """
        with self._lock:
            try:
                return self._asked(target, predict, seconds)
            except BaseException:
                self._kill()  # an answer may still be under way: the next question must not read it
                raise

    def stop(self) -> None:
        """End the process; the next question starts another."""
        with self._lock:
            self._kill()

    def close(self) -> None:
        """End the process for good, without waiting for a question that another thread may have asked."""
        self._closed = True
        self._kill()

    def forget(self) -> None:
        """In a forked child: the process is the parent's, only the copies of its pipes are closed here."""
        self._lock = threading.Lock()
        process, self._process, self._rest = self._process, None, b""
        if process is not None:
            _close_pipes(process)
            process.returncode = 0  # not this program's child: nothing to wait for

    def _asked(self, target: str, predict: str, seconds: float) -> Outcome:
        for _ in range(3):
            if self._process is None or self._process.poll() is not None:
                self._kill()
                self._start()
            self._number += 1
            question = {"number": self._number, "target": target, "predict": predict, "seconds": seconds}
            try:
                self._send(json.dumps(question).encode() + b"\n")
                return self._outcome(seconds)
            except _Lost:
                self._kill()
        raise UserError("expr_verify's worker process died three times in a row; is this machine out of memory?")

    def _outcome(self, seconds: float) -> Outcome:
        deadline = time.monotonic() + seconds + _GRACE
        taken = readable = False
        while True:
            line = self._line(deadline)
            if line is None and not taken:
                raise _Lost
            if line is None:  # the worker's own alarm failed: it was stopped, or the machine stood still
                self._kill()
                return "answer late" if readable else "target late"
            word, _, rest = line.partition(" ")
            number, _, answer = rest.partition(" ")
            if word == "died" and taken:
                return "answer late" if readable else "target late"
            if number != str(self._number):
                continue  # what a worker said that died after its answer
            taken = taken or word == "took"
            readable = readable or word == "target"
            if word == "answer":
                return _OUTCOMES[answer]

    def _start(self) -> None:
        if self._closed:
            raise RuntimeError("the interpreter is shutting down")
        if importlib.util.find_spec("math_verify") is None:
            raise UserError("math-verify is missing; run: pip install 'rubricworks[eval]'")
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        kept |= {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=kept,
            start_new_session=True,
        )
        try:
            line = self._line(time.monotonic() + _START_SECONDS)
        except _Lost:
            line = None
        if line != "ready":
            self._kill()
            raise UserError("expr_verify's worker process does not start; does `python -c 'import math_verify'` work?")

    def _send(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except OSError:
            raise _Lost from None

    def _line(self, deadline: float) -> str | None:
        """The next line, None when the deadline has passed."""
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            poll = select.poll()
            poll.register(pipe, select.POLLIN)
            if left <= 0 or not poll.poll(left * 1000):
                return None
            part = os.read(pipe, 4096)
            if not part:
                raise _Lost
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def _kill(self) -> None:
        process, self._process, self._rest = self._process, None, b""
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        _close_pipes(process)
        process.wait()


class _Lost(Exception):
    """The worker is gone; nobody is to blame for it but itself."""


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


WORKER = Worker()
atexit.register(WORKER.close)
os.register_at_fork(after_in_child=WORKER.forget)
