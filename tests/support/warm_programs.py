"""Programs forked from a process that has torch, Transformers and the library loaded, instead of new interpreters.

`forked_workers` starts the server once the tests are collected. A program gets its own arguments, environment, folder,
output and session, and ends as an interpreter does. Without a server (`pytest` without `--workers`), `start` starts an
interpreter. Tests use `subprocess` where a program must import what it needs, or is found by its environment.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from support_paths import SUPPORT_PATHS

_SERVER = "RUBRICWORKS_TEST_PROGRAMS"


def serve(path: Path) -> int:
    """Fork the server and return its process id; this process and its children find it by the environment."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen(64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # native libraries have threads, and mend themselves after a fork
        pid = os.fork()
    if pid == 0:
        parent = os.getppid()
        listening.settimeout(2.0)
        gc.freeze()
        while os.getppid() == parent:
            _reap()
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                listening.close()
                connection.settimeout(None)
                _start_and_wait(connection)
            connection.close()
        os._exit(0)
    listening.close()
    os.environ[_SERVER] = str(path)
    return pid


class WarmProgram:
    """A running program, with the methods of `subprocess.Popen` that tests and `StageServer` need."""

    def __init__(self, connection: socket.socket) -> None:
        self._answers = connection.makefile("rb")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = int(self._answers.readline() or -signal.SIGKILL)
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


def start(
    module: str,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdout: int,
    stderr: int,
    pass_fds: Sequence[int] = (),
) -> "WarmProgram | subprocess.Popen[bytes]":
    """Start `python -m module arguments…` in a session of its own, without standard input."""
    if _SERVER not in os.environ:
        command = [sys.executable, "-m", module, *arguments]
        streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
        env = {**env, "PYTHONPATH": os.pathsep.join([*SUPPORT_PATHS, env.get("PYTHONPATH", "")])}
        return subprocess.Popen(command, env=env, cwd=cwd, pass_fds=pass_fds, start_new_session=True, **streams)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ[_SERVER])
    own = {**env, _SERVER: os.environ[_SERVER]}
    request = {"module": module, "arguments": list(arguments), "env": own, "cwd": str(cwd), "fds": list(pass_fds)}
    socket.send_fds(connection, [b"p"], [stdout, stderr, *pass_fds])
    connection.sendall(json.dumps(request).encode() + b"\n")
    return WarmProgram(connection)


def run(
    module: str, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: Path
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it wrote passes through files in a folder, `output`."""
    output.mkdir(parents=True, exist_ok=True)
    with (output / "stdout").open("w+b") as out, (output / "stderr").open("w+b") as err:
        program = start(module, arguments, env=env, cwd=cwd, stdout=out.fileno(), stderr=err.fileno())
        code = program.wait()
    texts = ((output / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess([module, *arguments], code, *texts)


def _reap() -> None:
    """Let programs that have ended count as this process's children, so that their time is counted."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _start_and_wait(connection: socket.socket) -> NoReturn:
    """Fork the program; send its process id and, at its end, its exit code."""
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 32)
    with connection.makefile("rb") as requests:
        request = json.loads(requests.readline())
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(request, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        connection.sendall(f"{code}\n".encode())
    finally:
        os._exit(0)


def _become(request: dict, descriptors: list[int]) -> NoReturn:
    """Run the module as an interpreter does that has just started."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    # First out of the way of the numbers that they are to have.
    moved = [os.dup(descriptor) for descriptor in descriptors]
    first = 1 + max([*moved, *request["fds"]])
    safe = [os.dup2(descriptor, first + place) for place, descriptor in enumerate(moved)]
    for descriptor, wanted in zip(safe, [1, 2, *request["fds"]], strict=True):
        os.dup2(descriptor, wanted, inheritable=True)
    os.dup2(null, 0)
    keep = {0, 1, 2, *request["fds"]}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in keep:
            with suppress(OSError):  # the one that listed them
                os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = [request["module"], *request["arguments"]]
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
    atexit._clear()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    warnings.filterwarnings("ignore", message=".*found in sys.modules")  # it is loaded, which is the point
    code = 0
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
