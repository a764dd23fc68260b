"""One model server as a child process: its command, readiness and complete termination.

The process leads a session of its own, and a guard ends the whole session if the process that started it is killed.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rubricworks.data.hub import model_source
from rubricworks.errors import TransientError, UserError
from rubricworks.llm.served import ServedModel
from rubricworks.redaction import foreign_line
from rubricworks.runtime.guard import Guard, end_group
from rubricworks.runtime.serving.identity import ServedIdentity, server_options, vllm_command

HOST = "127.0.0.1"
_POLL_S = 0.2
_HTTP_TIMEOUT_S = 30.0
_FAILED_PROBES = 5
"""Number of 5xx responses, a second apart, after which a server that reports itself healthy counts as broken."""
_TRIES_FOR_A_PORT = 5
_PORT_TAKEN = re.compile(r"address already in use", re.IGNORECASE)
_REASON = re.compile(r"\b((?:[\w.]*(?:Error|Exception)|error): .+)")


class LocalServer:
    """Server of one replica."""

    def __init__(
        self, served: ServedModel, identity: ServedIdentity, place: str, log: Path, devices: Sequence[str] | None
    ) -> None:
        """
        Args:
            place: folder of the model, or its name on the Hub.
            log: file that its output is appended to.
            devices: accelerators that it sees; None for all.
        """
        self._served, self._identity, self._place, self._log = served, identity, place, log
        self._devices = devices
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None
        self._port = 0
        self._log_start = 0
        self._lock = threading.Lock()
        self.stopped = False

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Start the process and return when it answers; a later start takes the same port.

        Raises:
            TransientError: it ended, was not ready in time, or answers with errors, or another program has its port; it
                is ended then.
            UserError: it cannot be started here.
        """
        known_port = self._port
        for tries_left in range(_TRIES_FOR_A_PORT - 1, -1, -1):
            self._spawn()
            try:
                self._wait_until_ready()
                return
            except _PortTaken:
                self.end()
                if known_port:  # which calls go to
                    raise TransientError(
                        f"{self._label}: port {known_port} was taken while it was down; resume the run"
                    ) from None
                self._port = 0
                if not tries_left:
                    raise TransientError(f"{self._label} finds no free port; its log: {self._log}") from None
            except BaseException:
                self.end()
                raise

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        assert self._process is not None
        return self._process.wait()

    def stop(self) -> None:
        """End the process and all of its descendants; a start in progress fails."""
        with self._lock:
            self.stopped = True
        self.end()

    @property
    def _label(self) -> str:
        engine = ", ".join(filter(None, (self._identity.engine, self._identity.version)))
        return f"{self._served.name} ({engine})"

    def _spawn(self) -> None:
        self._port = self._port or _free_port()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._lock, self._log.open("ab") as log:
            if self.stopped:
                raise TransientError(f"{self._served.name} is no longer needed")
            self._log_start = log.tell()
            self._guard = Guard().__enter__()
            command = self._command()
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environment(),
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(f"serve.{self._served.name}: {command[0]} cannot be run: {error.strerror}") from None
            self._guard.watch(self._process.pid)

    def end(self) -> None:
        """End what is left of the process and its descendants."""
        with self._lock:
            process, guard, self._guard = self._process, self._guard, None
        if process is not None:
            end_group(process.pid, reap=process.poll)
        if guard is not None:
            guard.__exit__(None, None, None)

    def _command(self) -> list[str]:
        if words := self._served.command_words(HOST, self._port):
            return [sys.executable, *words[1:]] if words[0] == "python" else words
        common = ["--served-model-name", self._served.name, "--host", HOST, "--port", str(self._port)]
        options = server_options(self._served, self._identity.engine)
        if self._identity.engine == "generate":
            return [sys.executable, "-m", "rubricworks.cli", "serve", self._place, *common, *options]
        command = vllm_command()
        if command is None:
            raise UserError(f"serve.{self._served.name}: vllm is not installed here; install it, or set another engine")
        source = model_source(self._place)
        model = [self._place] if source is None else [source.name, "--revision", source.revision]
        shards = ["--tensor-parallel-size", str(self._served.accelerators)] if self._served.accelerators > 1 else []
        sleep = ["--enable-sleep-mode"] if self._served.sleep else []
        return [command, "serve", *model, *common, *shards, *sleep, *options]

    def _environment(self) -> dict[str, str]:
        environment = {**os.environ}
        if self._devices is not None:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._devices)
        if self._served.sleep:
            environment["VLLM_SERVER_DEV_MODE"] = "1"  # without it, it has no /sleep
        if self._identity.engine == "vllm" and (command := vllm_command()):
            folder = Path(command).parent
            environment["PATH"] = f"{folder}{os.pathsep}{environment.get('PATH', '')}"
            if folder != Path(sys.executable).parent:  # packages of this Python are not that one's
                for name in ("PYTHONPATH", "PYTHONHOME"):
                    environment.pop(name, None)
        return environment

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._served.start_within
        failed_probes = 0
        while True:
            self._require_running()
            health = _request(f"{self.url}/health")
            if self._served.command:
                # Any answer will do: a detector need not know this path, or even GET, which is 501 then.
                if health.status == 501 or 0 < health.status < 500:
                    return
                is_up, answer = health.status not in (0, 503), health
            else:
                is_up = health.status == 200
                answer = _request(f"{self.url}/v1/chat/completions", self._first_chat()) if is_up else health
                if answer.status == 200:
                    return
            if is_up:
                self._require_running()
                failed_probes += 1
                if 400 <= answer.status < 500 or failed_probes >= _FAILED_PROBES:
                    raise TransientError(
                        f"{self._label} answers {answer.status or 'nothing'} to a first request: {answer.text}; "
                        f"its log: {self._log}"
                    )
                time.sleep(1.0)
            if time.monotonic() > deadline:
                raise TransientError(
                    f"{self._label} was not ready within {self._served.start_within:g} s; allow more "
                    f"(serve.{self._served.name}.start_within), or see its log: {self._log}"
                )
            time.sleep(_POLL_S)

    def _first_chat(self) -> bytes:
        messages = [{"role": "user", "content": "ping"}]
        return json.dumps({"model": self._served.name, "messages": messages, "max_tokens": 1}).encode()

    def _require_running(self) -> None:
        assert self._process is not None
        if (code := self._process.poll()) is None:
            return
        output = self._output()
        if _PORT_TAKEN.search(output):
            raise _PortTaken
        raise TransientError(
            f"{self._label} ended before it was ready ({_ending(code)}): {_reason(output)}; its log: {self._log}"
        )

    def _output(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


class _PortTaken(Exception):
    """Another program took the port between its choice and the server's start."""


class _Answer(NamedTuple):
    status: int
    """0 if the server does not answer."""
    text: str = ""


def _request(url: str, body: bytes | None = None) -> _Answer:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_HTTP_TIMEOUT_S) as answer:
            return _Answer(answer.status)
    except urllib.error.HTTPError as error:
        with suppress(OSError):
            return _Answer(error.code, foreign_line(_message(error.read(10_000).decode(errors="replace"))))
        return _Answer(error.code)
    except (OSError, ValueError):
        return _Answer(0)


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _ending(code: int) -> str:
    if code == -9:
        return "killed, most often because memory ran out"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _reason(output: str) -> str:
    """First error that a server's output names, which caused the later ones; else its last line."""
    if match := _REASON.search(output):
        return foreign_line(match[1])
    lines = [line for line in output.splitlines() if line.strip()]
    return foreign_line(lines[-1]) if lines else "it wrote nothing"
