"""A stage that another stage runs in its own folder, as a step of its work."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from rubricworks.data.manifest import MANIFEST
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job, set_aside
from rubricworks.training.processes import is_main

_POLL_SECONDS = 2.0
_log = logging.getLogger(__name__)


def run_below(part: ModuleType, config: StageConfig, job: Job, inputs: dict[str, Path], *more: Any) -> Path:
    """Run a stage in a folder of its name below the job's, unless its table is complete; return the folder.

    Args:
        part: module of the stage.
        inputs: the stage's own.
        more: further arguments of its `run`.
    """
    out = job.out / _name(part)
    if (out / "made_from.json").exists():
        set_aside(out, job.run)  # an unusable attempt
    if not (out / MANIFEST).exists():
        run_within(part, config, replace(job, out=out, inputs=inputs, figures={}), *more)
    return out


def run_within(part: ModuleType, config: StageConfig, job: Job, *more: Any) -> None:
    """Run a stage as a part of the job, and close its clients."""
    _log.info(_name(part).replace("_", " "))
    try:
        part.run(config, job, *more)
    finally:
        job.calls.close()


def _name(part: ModuleType) -> str:
    return part.__name__.rpartition(".")[2]


def main_runs_below(part: ModuleType, config: StageConfig, job: Job, inputs: dict[str, Path], *more: Any) -> Path:
    """`run_below` in the main process of a training; the others wait for the table, and return its folder too."""
    folder = job.out / _name(part)
    main_writes_table(folder, lambda: run_below(part, config, job, inputs, *more))
    return folder


def main_writes_table(folder: Path, write: Callable[[], object]) -> None:
    """Have the main process of a training write a table, however long it takes; the others wait for its manifest."""
    if is_main():
        write()
        return
    while not (folder / MANIFEST).exists():
        time.sleep(_POLL_SECONDS)
