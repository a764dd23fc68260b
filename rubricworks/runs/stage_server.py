"""Stages forked from a process that has their libraries loaded: each starts in a tenth of a second.

Importing torch, Transformers and TRL takes longer than a small stage's work, and a run has several such stages. So a
run starts this module once as a process, the server. It imports the libraries while the first stages run, and
forks each stage from itself. A forked stage runs Kubeflow's executor with arguments, environment, output streams and
session of its own, as the shell in a pod would start it; it ends and is killed like any process.

Only where a fork is safe: on Linux. On a machine with a GPU, what may touch it on import is left to each stage.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from rubricworks.runs.stage_executor import EXECUTOR, run_executor

IS_SAFE = sys.platform == "linux"
"""On macOS the system's own libraries do not survive a fork."""

_OF_EVERY_STAGE = (
    *("kfp.dsl.executor", "rubricworks.runtime.launch", "rubricworks.reports.stage_page"),
    *("jinja2", "pyarrow.parquet", "rubricworks.grading", "rubricworks.tracking"),
)
_OF_TRAINERS = ("rubricworks.training.sft", "rubricworks.training.policy.grpo")
_GPUS = ("nvidia[0-9]*", "kfd", "dxg")


class StageServer:
    """Context manager that starts and ends the process from which stages are forked."""

    def __init__(self, log: IO[str]) -> None:
        """`log` receives the output of libraries while they are imported."""
        self._log = log

    def __enter__(self) -> "StageServer":
        self._connection, its = socket.socketpair()
        with its:
            self._process = _start(its.fileno(), self._log)
        self._answers = self._connection.makefile("rb")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._answers.close()
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def fork(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdout: int,
        stderr: int,
        *,
        trains: bool,
        others_train: bool,
    ) -> "ForkedStage":
        """A stage's process, which waits until it is told to `go`.

        Args:
            arguments: those of Kubeflow's executor.
            environment: the whole environment.
            stdout: file descriptor, as `stderr` is.
            trains: it needs the libraries that train.
            others_train: another stage of the run will need them; they are imported while this one runs.
        Raises:
            ChildProcessError: the server is gone.
        """
        request = {"arguments": arguments, "environment": dict(environment), "trains": trains, "others": others_train}
        with suppress(BrokenPipeError):
            socket.send_fds(self._connection, [b"f"], [stdout, stderr])
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        if not (pid := self._answers.readline()):
            raise ChildProcessError(f"the process that starts stages is gone; its log: {self._log.name}")
        return ForkedStage(int(pid), self._connection, self._answers)


class ForkedStage:
    """Process of a stage; its parent is the server, which reaps it."""

    def __init__(self, pid: int, connection: socket.socket, answers: IO[bytes]) -> None:
        self.pid = pid
        self._connection, self._answers = connection, answers

    def go(self) -> None:
        with suppress(BrokenPipeError):
            self._connection.sendall(b"g")

    def wait(self) -> int:
        """Exit code, once it has ended; of a signal, its negative number."""
        return int(self._answers.readline() or -signal.SIGKILL)

    def poll(self) -> None:
        """Nothing to reap here."""


def _start(connection: int, log: IO[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", __name__, str(connection)],
        # Unless Kubeflow's package is told that it runs a component, it imports its client too.
        env={**os.environ, "_KFP_RUNTIME": "true"},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[connection],
        start_new_session=True,  # Ctrl-C is for the run, which ends the stage
    )


def main() -> None:
    """Serve the requests of a run; in each forked process, run the executor."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    _import(_OF_EVERY_STAGE)
    requests = connection.makefile("rb")
    while streams := socket.recv_fds(connection, 1, 2)[1]:
        request: dict[str, Any] = json.loads(requests.readline())
        has_gpu = any(any(Path("/dev").glob(name)) for name in _GPUS)
        if request["trains"] and not has_gpu:
            _import(_OF_TRAINERS)
        gc.freeze()
        if _fork() == 0:
            _become_stage(connection, streams, request)
            run_executor()
            _exit()
        for descriptor in streams:
            os.close(descriptor)
        if request["others"] and not has_gpu:
            _import(_OF_TRAINERS)
        code = os.waitstatus_to_exitcode(os.wait()[1])
        with suppress(OSError):  # the run is gone
            connection.sendall(f"{code}\n".encode())


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        with suppress(ImportError):  # a stage that needs it says what to install
            importlib.import_module(name)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # OpenBLAS and jemalloc have threads here, and mend themselves after a fork
        return os.fork()


def _become_stage(connection: socket.socket, streams: list[int], request: dict[str, Any]) -> None:
    os.setsid()
    for descriptor, own in zip(streams, (1, 2), strict=True):
        os.dup2(descriptor, own)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [EXECUTOR, *request["arguments"]]
    connection.sendall(f"{os.getpid()}\n".encode())
    if not connection.recv(1):  # the run was killed before it knew of this process
        os._exit(1)
    os.close(connection.detach())  # whoever waits for the server is told if it is killed


def _exit() -> NoReturn:
    """End as an interpreter does, but without taking loaded libraries apart, which takes up to a second."""
    threading._shutdown()  # type: ignore[attr-defined]  # these two, as multiprocessing does after its forks
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
