"""Submitted runs on this machine: each is a child `rubricworks run`, one at a time.

The child locks a file while it lives, so a restarted service detects a running run and can stop it.

    runs/.submitted/current              lock; name and process of the run
    runs/.submitted/<run>/recipe.yaml    recipe, as it was checked
    runs/.submitted/<run>/output         what the child printed, and what it printed when it was resumed
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FOLDER = ".submitted"
COMMAND = (sys.executable, "-m", "rubricworks.cli", "run")
_OUTPUT_BYTES = 64 * 1024


class Child(NamedTuple):
    """The run that is going."""

    run: str
    process: int


class LocalRuns:
    """Child processes over one folder of runs; its methods block."""

    def __init__(self, runs: Path) -> None:
        self._runs, self._folder = runs.absolute(), runs.absolute() / FOLDER

    def start(self, run: str, recipe: str, environment: Mapping[str, str]) -> "subprocess.Popen[bytes] | None":
        """Start a run; None if another one is running.

        Raises:
            FileExistsError: a run of that name began before.
        """

        def prepare() -> None:
            if self.has_begun(run):
                raise FileExistsError(run)
            (self._folder / run).mkdir(exist_ok=True)
            (self._folder / run / "recipe.yaml").write_text(recipe, encoding="utf-8")

        return self._launch(run, ["recipe.yaml", "--run", run], environment, prepare)

    def resume(
        self, run: str, environment: Mapping[str, str], prepare: Callable[[], None]
    ) -> "subprocess.Popen[bytes] | None":
        """Resume a submitted run that has ended; None if a run is going.

        Args:
            prepare: called before it is resumed, while no other run can start here; if it raises, nothing starts.
        """
        return self._launch(run, ["--resume", run], environment, prepare)

    def _launch(
        self, run: str, arguments: Sequence[str], environment: Mapping[str, str], prepare: Callable[[], None]
    ) -> "subprocess.Popen[bytes] | None":
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "current").open("a+b") as current:
            try:
                fcntl.flock(current, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            prepare()
            place = self._folder / run
            command = [*COMMAND, *arguments, "--runs", str(self._runs)]
            with (place / "output").open("ab") as output:
                child = subprocess.Popen(
                    command,
                    cwd=place,  # a relative path in a recipe leads nowhere
                    env=dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(current.fileno(),),  # the lock ends with the last who holds it
                    start_new_session=True,
                )
            current.truncate(0)
            current.write(json.dumps(Child(run, child.pid)._asdict()).encode())
        return child

    def current(self) -> Child | None:
        """The running run, also if an earlier service started it."""
        try:
            with (self._folder / "current").open("rb") as current:
                try:
                    fcntl.flock(current, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return Child(**json.loads(current.read()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return None

    def stop(self, run: str) -> bool:
        """Interrupt a run as Ctrl-C does; return False if it is not going."""
        child = self.current()
        if child is None or child.run != run:
            return False
        try:
            os.kill(child.process, signal.SIGINT)
        except ProcessLookupError:
            return False
        return True

    def has_begun(self, run: str) -> bool:
        """Return True for a submitted run whose child was started."""
        current = self.current()
        return (current is not None and current.run == run) or bool(self.output(run)) or (self._runs / run).exists()

    def output(self, run: str) -> str:
        """End of a run's output; empty if it was not submitted."""
        try:
            content = (self._folder / run / "output").read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        return content[-_OUTPUT_BYTES:].decode(errors="replace")
