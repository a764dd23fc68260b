"""Served models of one run on this machine: each starts with the first stage that calls it and ends with the last.

A server that dies is started again at its address, so that the stage's calls wait for it. What happened to each model
is in `served_models.jsonl` of the run's folder, one event a line; the servers' output is in `logs/serve-NAME.log`.
"""

import json
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rubricworks.errors import UserError
from rubricworks.llm.served import EVENTS_FILE, ServedModel
from rubricworks.runtime.serving.identity import ServedIdentity, Weights
from rubricworks.runtime.serving.local_server import LocalServer
from rubricworks.runtime.store.downloads import fetch_input
from rubricworks.runtime.store.workspace import workspace_path
from rubricworks.storage import is_remote
from rubricworks.terminal import say as say_line

_MAX_RESTARTS = 5
"""Restarts of a server before its model counts as lost."""
_DEVICES = "CUDA_VISIBLE_DEVICES"


class Served(NamedTuple):
    """A model that answers."""

    urls: list[str]
    """Address of each replica."""
    devices: list[str] | None
    """Accelerators that are left to the stages; None if no server has one to itself."""


class LocalServers:
    """Context manager of a run's servers; all end with it."""

    def __init__(
        self,
        run: Path,
        callers: Mapping[str, Collection[str]] | None = None,
        say: Callable[[str], None] = say_line,
        on_lost: Callable[[str, str], None] = lambda name, message: None,
    ) -> None:
        """
        Args:
            callers: name → stages that call the model; one that is not listed ends with the run.
            on_lost: called with the name of a model that cannot be kept running, and the reason.
        """
        self._run, self._say, self._on_lost = run, say, on_lost
        self._waiting = {name: set(stages) for name, stages in (callers or {}).items()}
        self._models: dict[str, _Model] = {}
        self._users: Counter[str] = Counter()
        """Name of a model → stages that call it now."""
        self._idle: dict[str, threading.Timer] = {}
        self._lock = threading.Lock()
        self._machine = Accelerators()

    def __enter__(self) -> "LocalServers":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, served: ServedModel, identity: ServedIdentity, weights: Weights) -> Served:
        """Start a model unless it runs already, and return when it answers.

        Raises:
            UserError: it does not fit this machine, or does not start.
        """
        with self._lock:
            self._users[served.name] += 1
            if timer := self._idle.pop(served.name, None):
                timer.cancel()
            model = self._models.get(served.name)
            if model is not None and (model.served, model.identity) != (served, identity):
                stale, model = model, None
            else:
                stale = None
            if model is None:
                model = _Model(served, identity, self)
                self._models[served.name] = model
        if stale is not None:
            stale.stop("another model takes its name")
        with model.starting:
            if not model.is_ready:
                try:
                    model.start(weights)
                except BaseException:
                    model.stop("it did not start")
                    with self._lock:
                        self._users[served.name] -= 1
                        if self._models.get(served.name) is model:
                            del self._models[served.name]
                    raise
        return Served(model.urls, self._machine.left())

    def release(self, served: ServedModel) -> None:
        """Take note that a stage which asked for a model calls it no more."""
        with self._lock:
            self._users[served.name] -= 1
            if served.idle is not None and not self._users[served.name] and served.name in self._models:
                timer = threading.Timer(served.idle, self._stop_idle, [self._models[served.name]])
                timer.daemon = True
                self._idle[served.name] = timer
                timer.start()

    def _stop_idle(self, model: "_Model") -> None:
        served = model.served
        with model.starting:
            with self._lock:
                if self._users[served.name] or self._idle.pop(served.name, None) is None:
                    return  # a stage came first
            model.stop(f"no stage called it for {served.idle:g} s")

    def stage_ended(self, stage: str) -> None:
        """Stop the models that no later stage calls."""
        for name, stages in self._waiting.items():
            stages.discard(stage)
            if not stages:
                self._stop(name, f"{stage} was the last stage that calls it")

    def close(self) -> None:
        """Stop all models."""
        for name in list(self._models):
            self._stop(name, "the run ended")

    def environment(self) -> dict[str, str]:
        """Variables for the next stage: the accelerators that no server has."""
        left = self._machine.left()
        return {} if left is None else {_DEVICES: ",".join(left)}

    def _stop(self, name: str, reason: str) -> None:
        with self._lock:
            model = self._models.pop(name, None)
            timer = self._idle.pop(name, None)
        if timer is not None:
            timer.cancel()
        if model is not None:
            model.stop(reason)

    def log_event(self, event: dict[str, Any]) -> None:
        with self._lock, (self._run / EVENTS_FILE).open("a") as file:
            file.write(json.dumps(event) + "\n")


class _Model:
    """One served model with its replicas."""

    def __init__(self, served: ServedModel, identity: ServedIdentity, servers: LocalServers) -> None:
        self.served, self.identity, self._servers = served, identity, servers
        self.starting = threading.Lock()
        self.is_ready = False
        self._replicas: list[LocalServer] = []
        self._since = 0.0
        self._restarts = 0

    @property
    def urls(self) -> list[str]:
        return [replica.url for replica in self._replicas]

    def start(self, weights: Weights) -> None:
        served, servers = self.served, self._servers
        place = weights.place
        if is_remote(place) and not served.command:
            fetch_input(place, workspace_path(place))
            place = str(workspace_path(place))
        if not served.command:
            servers._machine.require_fit(served, place)
        devices = servers._machine.take(served)
        servers._say(
            " ".join(
                f"{served.name}: starting {self.identity.engine} {self.identity.version} for {weights.place}".split()
            )
        )
        self._since = time.monotonic()
        for number in range(served.replicas):
            suffix = f"-{number + 1}" if number else ""
            log = servers._run / "logs" / f"serve-{served.name}{suffix}.log"
            self._replicas.append(LocalServer(served, self.identity, place, log, devices[number]))
        run_all([replica.start for replica in self._replicas])
        self.is_ready = True
        seconds = time.monotonic() - self._since
        servers._say(f"{served.name}: ready after {seconds:.0f} s at {', '.join(self.urls)}")
        self._log("ready", ready_seconds=round(seconds, 3))
        for replica in self._replicas:
            threading.Thread(target=self._keep_running, args=[replica], daemon=True).start()

    def stop(self, reason: str) -> None:
        run_all([replica.stop for replica in self._replicas])
        self._replicas = []
        self._servers._machine.give_back(self.served.name)
        if self.is_ready:
            self.is_ready = False
            seconds = time.monotonic() - self._since
            hours = self.served.accelerators * self.served.replicas * seconds / 3600
            self._log("stopped", reason, seconds=round(seconds, 3), accelerator_hours=round(hours, 6))
            self._servers._say(f"{self.served.name}: stopped after {seconds:.0f} s, because {reason}")

    def _keep_running(self, replica: LocalServer) -> None:
        while True:
            code = replica.wait()
            if replica.stopped:
                return
            replica.end()
            self._restarts += 1
            reason = f"its server ended with {code}"
            if self._restarts <= _MAX_RESTARTS:
                self._servers._say(f"{self.served.name}: {reason}; starting it again")
                self._log("restarted", reason)
                try:
                    replica.start()
                    continue
                except UserError as error:
                    reason = str(error)
            if not replica.stopped:
                self._log("lost", reason)
                self._servers._on_lost(self.served.name, reason)
            return

    def _log(self, event: str, reason: str = "", **figures: float) -> None:
        entry: dict[str, Any] = {"event": event, "name": self.served.name, "model": str(self.identity)}
        entry |= {"replicas": self.served.replicas, "accelerators": self.served.accelerators, **figures}
        if reason:
            entry["reason"] = reason
        self._servers.log_event(entry)


def run_all(actions: Sequence[Callable[[], None]]) -> None:
    """Run actions at the same time; raise the first error when all have ended."""
    errors: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[action], daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Accelerators:
    """Accelerators of this machine, and which served model has each."""

    def __init__(self) -> None:
        self._all: dict[str, int] | None = None
        self._owners: dict[str, str] = {}

    def left(self) -> list[str] | None:
        """Accelerators that no model has; None if none has one."""
        return [device for device in self._devices() if device not in self._owners] if self._owners else None

    def take(self, served: ServedModel) -> list[list[str] | None]:
        """Give each replica its accelerators, the last ones first, as stages take the first ones.

        Raises:
            UserError: the machine has too few.
        """
        if not served.accelerators:
            return [None] * served.replicas
        free = [device for device in self._devices() if device not in self._owners]
        needed = served.accelerators * served.replicas
        if needed > len(free):
            count = len(self._devices())
            has = f"{len(free)} of this machine's {count} are free" if count else "this machine shows none (nvidia-smi)"
            raise UserError(
                f"serve.{served.name}.accelerators: {served.replicas} x {served.accelerators} are needed, and {has}; "
                "ask for fewer, or set 0 to share those of the stages"
            )
        taken = free[len(free) - needed :]
        self._owners |= dict.fromkeys(taken, served.name)
        return [taken[start : start + served.accelerators] for start in range(0, needed, served.accelerators)]

    def give_back(self, name: str) -> None:
        self._owners = {device: owner for device, owner in self._owners.items() if owner != name}

    def require_fit(self, served: ServedModel, place: str, estimate: int = 0) -> None:
        """Compare the weights of a model with the memory that it will have.

        Args:
            place: folder of the model, if it is one.
            estimate: bytes of a model that is not here yet; 0 if they are not known.
        Raises:
            UserError: they do not fit.
        """
        folder = Path(place)
        needed = sum(path.stat().st_size for path in folder.glob("*.safetensors")) if folder.is_dir() else estimate
        if served.accelerators:
            devices = self._devices()
            each = min(devices.values(), default=0)
            memory, where = each * served.accelerators, f"{served.accelerators} x {_gib(each)} of accelerator memory"
        else:
            memory, where = _available_memory(), "of memory available"
            where = f"{_gib(memory)} {where}"
        if memory and needed > memory:
            raise UserError(
                f"serve.{served.name}: its weights take {_gib(needed)}, and there are {where}; give it more "
                f"(serve.{served.name}.accelerators), or serve a smaller model"
            )

    def _devices(self) -> dict[str, int]:
        """Accelerator → its memory in bytes."""
        if self._all is None:
            visible = os.environ.get(_DEVICES)
            self._all = {
                device: memory
                for device, memory in _nvidia_devices().items()
                if visible is None or device in visible.split(",")
            }
        return self._all


def _nvidia_devices() -> dict[str, int]:
    query = ["nvidia-smi", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = (line.split(",") for line in output.splitlines() if line.strip())
    return {index.strip(): int(memory) << 20 for index, memory in rows}


def _available_memory() -> int:
    """Bytes of memory available to a new program; 0 if the system does not report it."""
    meminfo = Path("/proc/meminfo")
    lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines()) if meminfo.is_file() else {}
    return int(lines["MemAvailable"].split()[0]) << 10 if "MemAvailable" in lines else 0


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
