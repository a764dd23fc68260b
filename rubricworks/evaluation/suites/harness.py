"""Benchmark programs, each in its own environment, because their pinned packages conflict with ours.

An environment is made on first use, in the user's cache folder, or named by a variable (a Python). Such a program may
exit 0 when it fails, so only the files that it wrote count.
"""

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rubricworks.errors import UserError
from rubricworks.terminal import say

_READY = "rubricworks-ready"
_TORCHVISION = "@torch.library.register_fake("
_LAST_LINES = 3


class TaskResult(NamedTuple):
    """Result of one benchmark."""

    value: float | None
    """Figure that the harness reports, between 0 and 1; None if not all of the samples have a score."""
    samples: dict[str, float | None]
    """Sample → score; None if the endpoint did not respond. Empty if the harness's lines do not give the figure."""
    version: str
    """Version of the task."""
    reason: str | None = None
    """Reason for a missing figure."""
    tokens: int = 0
    """Tokens of the answers, as far as the program counts them."""
    seconds: float = 0.0
    """Duration of the program's run; 0 if the results were there."""


@dataclass(frozen=True)
class Harness:
    """Benchmark program: its distribution on PyPI, and the environment variable with the path of a Python that has it
    installed.
    """

    package: str
    version: str
    variable: str
    constraints: tuple[str, ...] = ()
    """Requirements that its distribution lacks."""
    replacements: tuple[str, ...] = ()
    """Distributions in place of those that its own requirements choose, without theirs."""

    def python(self) -> str:
        """Python of the environment, which is made if it is not there (minutes, some gigabytes).

        Raises:
            UserError: it cannot be made.
        """
        if chosen := os.environ.get(self.variable):
            return chosen
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "rubricworks" / f"{self.package}-{self.version}"
        python = folder / "bin" / "python"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ready = folder / _READY
            if not ready.is_file() or ready.read_text() != self._contents():
                self._make(folder, python)
        return str(python)

    def _contents(self) -> str:
        return "\n".join((*self.constraints, *self.replacements))

    def _make(self, folder: Path, python: Path) -> None:
        say(f"making an environment for {self.package} in {folder}: some minutes")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        steps = (
            [sys.executable, "-m", "venv", "--clear", str(folder)],
            [*pip, f"{self.package}=={self.version}", *self.constraints],
            *([[*pip, "--no-deps", *self.replacements]] if self.replacements else []),
        )
        for command in steps:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise UserError(
                    f"{self.package}'s environment {folder} cannot be made: {last_lines(done.stderr)}; install "
                    f"{self.package} {self.version} in an environment of your own and name its Python in "
                    f"{self.variable}"
                )
        query = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = subprocess.run([str(python), "-c", query], capture_output=True, text=True, check=True).stdout.strip()
        patch_torchvision(Path(site))
        (folder / _READY).write_text(self._contents())

    async def run(self, arguments: Sequence[str], variables: Mapping[str, str], log: Path) -> int:
        """Run the environment's Python with these arguments, its output in `log`; return the exit status."""
        program = await asyncio.to_thread(self.python)
        with log.open("wb") as output:
            environment = {**os.environ, **variables, "PYTHONUNBUFFERED": "1"}
            environment.pop("PYTHONPATH", None)  # its environment is another
            process = await asyncio.create_subprocess_exec(
                program, *arguments, stdout=output, stderr=asyncio.subprocess.STDOUT, env=environment
            )
            try:
                return await process.wait()
            except BaseException:
                process.kill()
                await process.wait()
                raise


def patch_torchvision(site: Path) -> None:
    """Declare the shapes of torchvision's CUDA operators only if they exist, because torchvision does not import
    otherwise.
    """
    path = site / "torchvision" / "_meta_registrations.py"
    if not path.is_file():
        return
    lines = path.read_text().splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.startswith(f'{_TORCHVISION}"torchvision::'):
            fake = line.strip()[1:]
            lines[at] = f"@({fake} if torchvision.extension._has_ops() else (lambda function: function))\n"
    path.write_text("".join(lines))


def last_lines(text: str) -> str:
    """The last lines of a program's output, for an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(line[:200] for line in lines[-_LAST_LINES:]) or "it printed nothing"
