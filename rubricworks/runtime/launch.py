"""Start one stage: the one door for components, the command line and tests.

A stage that fails leaves `error.json` in the run's folder; one that is done already returns at once.
"""

import json
import logging
import os
import shutil
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rubricworks.environment import fill
from rubricworks.errors import StoppedAtBudget, UserError
from rubricworks.kubernetes.work import StageWork
from rubricworks.llm import telemetry
from rubricworks.runtime.accelerators import require_accelerators
from rubricworks.runtime.config import StageConfig, own_config
from rubricworks.runtime.job import HANDED_ON, close_job, is_done, open_job
from rubricworks.runtime.pods.train_job import train_elsewhere, train_job_of
from rubricworks.runtime.reuse import try_reuse
from rubricworks.runtime.stage_table import STAGES
from rubricworks.runtime.store.workspace import Workspace
from rubricworks.storage import write_atomic
from rubricworks.training.processes import agreed, in_turn, is_main

_LEAST_ROOM = 1 << 16
"""Bytes of disk without which nothing is begun; what a stage needs, it finds out itself."""


def launch(
    stage: str,
    config: str,
    run: str,
    inputs: dict[str, str],
    *,
    view: str | None = None,
    metrics: Callable[[str, float], object] | None = None,
    handed_on: dict[str, str] | None = None,
) -> str:
    """Run a stage to the end and return the URI of its output folder.

    Args:
        stage: id of a stage in the stage table.
        config: the stage's own configuration as JSON, or those of several stages (`own_config`).
        run: URI of the run's folder; one in a store is worked on in a workspace (`workspace`).
        inputs: name → URI of the outputs that it reads; one without a URI is left out.
        view: file to write a page about what came of it to, also when it was done before.
        metrics: called with the name and the value of each of its figures.
        handed_on: filled with what the stage hands on by value.
    """
    run = fill(run, "the run's folder")  # a run of a schedule is named by what started it
    uris = {name: uri for name, uri in inputs.items() if uri}
    place = Workspace(stage, run, uris)
    folder, paths = place.run, place.inputs
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _configure_logging()
    try:
        module = STAGES[stage].load()
        work = StageWork(stage, own_config(stage, config), run, uris)
        parsed = module.Config.model_validate_json(work.config)
        out = _run_stage(module, parsed, place, work)
        place.keep()
        if handed_on is not None:
            handed_on.update(json.loads((out / HANDED_ON).read_bytes()))
        if view is not None or metrics is not None:
            from rubricworks.reports.views import FinishedStage, show_stage

            finished = FinishedStage(stage, out, folder, paths, STAGES[stage].title)
            show_stage(finished, STAGES[stage].load_view, view, metrics)
        return place.uri_of(out)
    except BaseException as error:
        _leave_error(folder, stage, error)
        place.leave()
        raise


def _run_stage(module: Any, config: StageConfig, place: Workspace, work: StageWork) -> Path:
    run = place.run
    with in_turn(), _writing(run):
        place.fetch()
        job = open_job(work.stage, config, run, place.inputs)
    job.work, job.in_parts = work, STAGES[work.stage].in_parts
    if not STAGES[work.stage].always_runs:
        if is_done(job):
            print("done in an earlier run", file=sys.stderr, flush=True)
            _forget_error(run, work.stage)
            return job.out
        with _writing(run):
            if agreed(is_main() and try_reuse(job)):
                return job.out
    if plan := train_job_of(work.stage, config):
        place.keep()
        train_elsewhere(plan, work)
        place.fetch()
        if not is_done(job):
            raise UserError(f"the TrainJob ended, and {work.stage} is not done; do its nodes see {work.run}?")
        _forget_error(run, work.stage)
        return job.out
    _require_room(run)
    # Counted from the start of the process, where the runner tells it.
    start = float(os.environ.get("RUBRICWORKS_STAGE_STARTED") or time.time())
    try:
        telemetry.serve_from_environment()
        require_accelerators()
        module.run(config, job)
    finally:
        job.calls.close()
    if is_main():
        with _writing(run):
            close_job(job, time.time() - start)
        _forget_error(run, work.stage)
    return job.out


def _require_room(run: Path) -> None:
    """Before a model is asked, or a step trained, of which nothing could be kept."""
    if (left := shutil.disk_usage(run).free) < _LEAST_ROOM:
        raise UserError(f"{run}: the disk has {left:,} bytes left; make room and run again: what was committed is kept")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{folder} cannot be written: {error.strerror or error}; make room or make it writable, and run again: "
            "what was committed is kept"
        ) from error


def _configure_logging() -> None:
    """Our own lines go to standard error as they are; what libraries have to say stays with the runner's log."""
    own = logging.getLogger("rubricworks")
    if not own.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        own.addHandler(handler)
    own.setLevel(logging.INFO)
    own.propagate = False
    logging.getLogger("stamina").setLevel(logging.ERROR)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"


def _forget_error(run: Path, stage: str) -> None:
    """What an earlier attempt of this stage left; on a cluster another's may stand there."""
    path = run / "error.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads(path.read_bytes())["stage"] != stage:
            return
    path.unlink(missing_ok=True)


def _leave_error(run: Path, stage: str, error: BaseException) -> None:
    interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
    what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    report = {"stage": stage, "message": "interrupted" if interrupted else what}
    if isinstance(error, StoppedAtBudget):
        report["more"] = error.more
    if not isinstance(error, UserError) and not interrupted:
        report["traceback"] = "".join(traceback.format_exception(error))
    try:
        write_atomic(run / "error.json", json.dumps(report, indent=2).encode())
    except (OSError, UserError):
        print(f"could not write {run / 'error.json'}; the error was: {what}", file=sys.stderr)
