"""lmms-eval 0.7.3 as a program of its own environment, against an OpenAI-compatible endpoint.

Its pins do not fit this package's, so the environment is made on first use, in the user's cache folder, or named by
`RUBRICWORKS_LMMS_EVAL` (a Python). The program exits 0 when it fails, so nothing counts but the files that it wrote:
`lmms_results` reads and verifies them. Every task has a folder of its own; one with verified results is not run again.
"""

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rubricworks.errors import UserError
from rubricworks.evaluation.suites.lmms_results import TaskResult, read_task

VERSION = "0.7.3"
PYTHON = "RUBRICWORKS_LMMS_EVAL"
_READY = "rubricworks-ready"
_TORCHVISION = "@torch.library.register_fake("
_LAST_LINES = 3


def environment_python() -> str:
    """Python of the environment, which is made if it is not there (minutes, some gigabytes).

    Raises:
        UserError: it cannot be made.
    """
    if chosen := os.environ.get(PYTHON):
        return chosen
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "rubricworks" / f"lmms-eval-{VERSION}"
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / _READY).is_file():
            _make(folder, python)
    return str(python)


def _make(folder: Path, python: Path) -> None:
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"lmms-eval=={VERSION}"],
    )
    for command in steps:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(
                f"lmms-eval's environment {folder} cannot be made: {_last_lines(done.stderr)}; install lmms-eval "
                f"{VERSION} in an environment of your own and name its Python in {PYTHON}"
            )
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([str(python), "-c", query], capture_output=True, text=True, check=True).stdout.strip()
    patch_torchvision(Path(site))
    (folder / _READY).touch()


def patch_torchvision(site: Path) -> None:
    """Declare the shapes of torchvision's CUDA operators only where they are: it does not import without them."""
    path = site / "torchvision" / "_meta_registrations.py"
    if not path.is_file():
        return
    lines = path.read_text().splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line.startswith(f'{_TORCHVISION}"torchvision::'):
            fake = line.strip()[1:]
            lines[at] = f"@({fake} if torchvision.extension._has_ops() else (lambda function: function))\n"
    path.write_text("".join(lines))


async def run_tasks(
    tasks: Mapping[str, str],
    *,
    url: str,
    model: str,
    api_key: str,
    folder: Path,
    include: Path | None = None,
    limit: int | None = None,
    concurrency: int = 16,
) -> dict[str, TaskResult]:
    """Run tasks and return their verified results.

    Args:
        tasks: task → the metric to read.
        url: base URL of the endpoint.
        folder: of the program's files; tasks whose results are there are not run again.
        include: folder of further task definitions.
        limit: first samples of each task.
    Raises:
        UserError: the program wrote no results for a task, or results that do not hold together.
    """
    results: dict[str, TaskResult] = {}
    for task, metric in tasks.items():
        place = folder / task
        if (result := read_task(place, task, metric)) is None:
            program = await asyncio.to_thread(environment_python)
            place.mkdir(parents=True, exist_ok=True)
            arguments = f"model_version={model},base_url={url},num_concurrent={concurrency},timeout=120"
            command = [program, "-m", "lmms_eval", "--model", "openai", "--model_args", arguments]
            command += ["--tasks", task, "--batch_size", "1", "--log_samples", "--output_path", str(place)]
            command += ["--include_path", str(include)] if include else []
            command += ["--limit", str(limit)] if limit else []
            code = await _run(command, {"OPENAI_API_KEY": api_key}, place / "log.txt")
            if (result := read_task(place, task, metric)) is None:
                log = (place / "log.txt").read_text(errors="replace")
                raise UserError(
                    f"lmms-eval wrote no results of {task} (exit {code}): {_last_lines(log)}; {place / 'log.txt'}"
                )
        results[task] = result
    return results


async def _run(command: Sequence[str], variables: Mapping[str, str], log: Path) -> int:
    with log.open("wb") as output:
        environment = {**os.environ, **variables, "PYTHONUNBUFFERED": "1"}
        environment.pop("PYTHONPATH", None)  # its environment is another
        process = await asyncio.create_subprocess_exec(
            *command, stdout=output, stderr=asyncio.subprocess.STDOUT, env=environment
        )
        try:
            return await process.wait()
        except BaseException:
            process.kill()
            await process.wait()
            raise


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(line[:200] for line in lines[-_LAST_LINES:]) or "it printed nothing"
