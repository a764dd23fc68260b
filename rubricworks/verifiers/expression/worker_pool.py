"""Worker processes seen by the program that asks: a few, each started when all others are busy, replaced when lost.

Any thread may ask, under a running event loop too (the call blocks until a worker is free and has answered). A process
is started by exec, never by fork of this program, and ends with it. A formula that used up its time once is remembered:
it gets no second trial, unless with more time.
"""

import atexit
import contextlib
import importlib.util
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from typing import Literal, NamedTuple

from rubricworks.errors import UserError

Outcome = Literal[
    "equal", "different", "target unreadable", "answer unreadable", "target late", "answer late", "comparison late"
]
"""Late: reading or computing the target, or the answer, or comparing the two, used up the time."""

_MOST_WORKERS = 4
_LONG_BUSY = 0.5
"""Seconds with one question, the start not counted, after which another worker may start."""
_START_SECONDS = 120.0
_PATIENCE, _GRACE = 10.0, 2.0
"""Time is the processor's. A worker that needs so many times as much by the clock, and seconds on top, is broken: it
was stopped, or the machine stands still.
"""
_REMEMBERED = 4096
"""Outcomes, and formulas that were late."""
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from rubricworks.verifiers.expression.worker import main
main()
"""
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "TMPDIR", "SYSTEMROOT")
_OUTCOMES: dict[str, Outcome] = {
    "yes": "equal",
    "no": "different",
    "target": "target unreadable",
    "answer": "answer unreadable",
}
_STEPS: dict[str, Outcome] = {"took": "target late", "target": "answer late", "both": "comparison late"}


class WorkerPool:
    """Up to so many workers, and the outcomes that need no worker again.

    The second and later workers start one by one, when each of the others has long been busy with one question: a
    start costs as much as many questions.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._reset()

    def compare(self, target: str, predict: str, seconds: float) -> Outcome:
        """Say if the two formulas are equal, or why that is not known.

        Raises:
            UserError: SymPy is missing, or a worker does not start.
        """
        if outcome := self._memory.outcome(target, predict, seconds):
            return outcome
        worker = self._take()
        try:
            if outcome := self._memory.outcome(target, predict, seconds):  # asked by another thread meanwhile
                return outcome
            answer = worker.compare(target, predict, seconds)
        finally:
            self._give_back(worker)
        if not answer.broken:
            self._memory.keep(target, predict, seconds, answer.outcome)
        return answer.outcome

    def close(self) -> None:
        """End the processes for good, without waiting for questions that other threads may have asked."""
        for worker in self.workers:
            worker.close()

    def forget(self) -> None:
        """Leave the processes to the parent: a forked child starts its own."""
        for worker in self.workers:
            worker.forget()
        self._reset()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self.workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._memory = _Memory()

    def _take(self) -> "Worker":
        with self._changed:
            while not self._idle:
                now = time.monotonic()
                if len(self.workers) < self.size and all(now - worker.since > _LONG_BUSY for worker in self.workers):
                    self.workers.append(Worker())
                    self._idle.append(self.workers[-1])
                else:
                    self._changed.wait(_LONG_BUSY)
            worker = self._idle.pop()
            worker.since = time.monotonic()
            return worker

    def _give_back(self, worker: "Worker") -> None:
        with self._changed:
            self._idle.append(worker)
            self._changed.notify()


class _Memory:
    """Outcomes by question, and the time in which a formula was not done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes: OrderedDict[tuple[str, str], tuple[Outcome, float]] = OrderedDict()
        self._late: OrderedDict[str, float] = OrderedDict()

    def outcome(self, target: str, predict: str, seconds: float) -> Outcome | None:
        with self._lock:
            if self._late.get(target, 0) >= seconds:
                return "target late"
            outcome, allowed = self._outcomes.get((target, predict), (None, 0.0))
            if outcome and (outcome != "comparison late" or allowed >= seconds):
                return outcome
            return "answer late" if self._late.get(predict, 0) >= seconds else None

    def keep(self, target: str, predict: str, seconds: float, outcome: Outcome) -> None:
        with self._lock:
            if outcome in ("target late", "answer late"):
                self._late[target if outcome == "target late" else predict] = seconds
            else:
                self._outcomes[target, predict] = (outcome, seconds)
            for outcomes in (self._late, self._outcomes):
                while len(outcomes) > _REMEMBERED:
                    outcomes.popitem(last=False)


class _Answer(NamedTuple):
    outcome: Outcome
    broken: bool = False
    """The worker was stopped or killed from outside, so the formulas are not to blame."""


class Worker:
    """One worker process; asked by one thread at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.since = time.monotonic()
        """Time of its last question, or of its start."""
        self._number = 0
        self._rest = b""
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def compare(self, target: str, predict: str, seconds: float) -> _Answer:
        try:
            return self._ask(target, predict, seconds)
        except BaseException:
            self._kill()  # an answer may still be under way: the next question must not read it
            raise

    def close(self) -> None:
        self._closed = True
        self._kill()

    def forget(self) -> None:
        """Close the copies of the pipes in a forked child; the process is the parent's."""
        process, self._process, self._rest = self._process, None, b""
        if process is not None:
            _close_pipes(process)
            process.returncode = 0  # not this program's child: nothing to wait for

    def _ask(self, target: str, predict: str, seconds: float) -> _Answer:
        for _ in range(3):
            if self._process is None or self._process.poll() is not None:
                self._kill()
                self._start()
            self._number += 1
            question = {"number": self._number, "target": target, "predict": predict, "seconds": seconds}
            try:
                self._send(json.dumps(question).encode() + b"\n")
                return self._answer(seconds)
            except _Lost:
                self._kill()
        raise UserError("expr_verify's worker process died three times in a row; is this machine out of memory?")

    def _answer(self, seconds: float) -> _Answer:
        deadline = time.monotonic() + _PATIENCE * seconds + _GRACE
        reached: Outcome | None = None
        """Outcome if the worker dies now; None until it has taken the question."""
        while True:
            line = self._line(deadline)
            if line is None and reached is None:
                raise _Lost
            if line is None:
                self._kill()
                return _Answer(reached or "target late", broken=True)
            word, _, rest = line.partition(" ")
            number, _, answer = rest.partition(" ")
            if word == "died" and reached:
                return _Answer(reached, broken=rest == "killed")
            if number != str(self._number):
                continue  # from a worker that died after its answer
            if word == "answer":
                return _Answer(_OUTCOMES[answer])
            reached = _STEPS.get(word, reached)

    def _start(self) -> None:
        if self._closed:
            raise RuntimeError("the interpreter is shutting down")
        if importlib.util.find_spec("sympy") is None:
            raise UserError("SymPy is missing; run: pip install 'rubricworks[eval]'")
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        environment |= {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
        self._rest = b""
        self.since = math.inf
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        try:
            line = self._line(time.monotonic() + _START_SECONDS)
        except _Lost:
            line = None
        if line != "ready":
            self._kill()
            raise UserError("expr_verify's worker process does not start; does `python -c 'import sympy'` work?")
        self.since = time.monotonic()

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


WORKERS = WorkerPool(min(_MOST_WORKERS, os.cpu_count() or 1))
atexit.register(WORKERS.close)
os.register_at_fork(after_in_child=WORKERS.forget)
