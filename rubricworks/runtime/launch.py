"""Launch one stage: the single entry point for components, the command line and tests.

A stage that fails leaves `error.json` in the run's folder; one that is already done returns at once.

Lineage of a stage's output, as metadata of its artifact on Kubeflow's pages.

Stages hand each other URIs, not Kubeflow's artifacts, which would be copied from pod to pod. So the artifact holds no
content: its metadata names the table or the model, its digest, and the digests of what it was made from, which are
those of earlier artifacts. Its own URI stays Kubeflow's, which takes none outside the pipeline root's bucket.
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

from rubricworks.data.manifest import MANIFEST, read_manifest
from rubricworks.environment import drop_service_links, fill
from rubricworks.errors import StoppedAtBudget, TransientError, UserError
from rubricworks.kubernetes.work import StageWork
from rubricworks.llm import telemetry
from rubricworks.redaction import redact
from rubricworks.runtime.accelerators import require_accelerators
from rubricworks.runtime.attempts import final_mark, refuse_futile_attempt
from rubricworks.runtime.config import StageConfig, extract_stage_config, without_emoji
from rubricworks.runtime.job import DONE, OUTPUT_VALUES, Job, close_job, is_done, model_dir, open_job, read_record
from rubricworks.runtime.pods.processes import processes_here, run_processes
from rubricworks.runtime.pods.train_job import run_train_job, train_job_plan
from rubricworks.runtime.reuse import try_reuse
from rubricworks.runtime.serving.stage_models import read_inputs, served_models, stage_models, with_identities
from rubricworks.runtime.stage_table import STAGES
from rubricworks.runtime.stage_warnings import collect_warnings
from rubricworks.runtime.store.workspace import Workspace
from rubricworks.storage import write_atomic
from rubricworks.terminal import VisibleLines, say, visible
from rubricworks.training.processes import broadcast, is_main, main_process_first

_MIN_FREE_BYTES = 1 << 16
"""Free disk space below which no stage starts; a stage checks any larger need of its own."""


def launch(
    stage: str,
    config: str,
    run: str,
    inputs: dict[str, str],
    *,
    view: str | None = None,
    metrics: Callable[[str, float], object] | None = None,
    lineage: Callable[[dict[str, str | int]], object] | None = None,
    output_values: dict[str, str] | None = None,
) -> str:
    """Run a stage to the end and return the URI of its output folder.

    Args:
        stage: id of a stage in the stage table.
        config: the stage's own configuration as JSON, or those of several stages (`extract_stage_config`).
        run: URI of the run's folder; a run in a store is worked on in a workspace (`workspace`).
        inputs: name → URI of the outputs that it reads; an empty URI is ignored.
        view: file to write the stage's page to, also when the stage was done before.
        metrics: called with the name and the value of each figure of the stage.
        lineage: called with the metadata of the stage's artifact.
        output_values: updated with the values that the stage passes on beside its output (`OUTPUT_VALUES`).
    """
    drop_service_links()
    run, start = fill(run, "the run's folder"), _stage_start()
    config = extract_stage_config(stage, config)
    uris = read_inputs(stage, config, {name: uri for name, uri in inputs.items() if uri})
    workspace = Workspace(stage, run, uris)
    folder, paths = workspace.run, workspace.inputs
    with _report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    _configure_logging()
    try:
        refuse_futile_attempt(stage, run, folder)
        module = STAGES[stage].load()
        work = StageWork(stage, config, run, uris)
        parsed = STAGES[stage].parse_config(work.config)
        out = _run_stage(module, parsed, workspace, work)
        workspace.upload()
        if output_values is not None:
            output_values.update(json.loads((out / OUTPUT_VALUES).read_bytes()))
        if lineage is not None:
            lineage(output_lineage(out, workspace.uri_of(out)))
        if view is not None or metrics is not None:
            from rubricworks.reports.run_folder import RunFolder
            from rubricworks.reports.stage_page import show_stage

            finished = RunFolder(folder, stage, paths)
            log = metrics and (lambda name, value: metrics(without_emoji(name), value))
            show_stage(finished, STAGES[stage].load_sections, view, log, title=STAGES[stage].title)
        return workspace.uri_of(out)
    except BaseException as error:
        _write_error(folder, stage, error, time.time() - start)
        workspace.upload_failure()
        raise


def _run_stage(module: Any, config: StageConfig, workspace: Workspace, work: StageWork) -> Path:
    run = workspace.run
    with main_process_first(), _report_write_errors(run):
        workspace.fetch()
        models = stage_models(config, workspace.inputs)
        identities = {name: str(model.identity) for name, model in models.items()}
        job = open_job(work.stage, config, run, workspace.inputs, served=identities)
    job.work, job.can_fan_out = work, STAGES[work.stage].can_fan_out
    if not STAGES[work.stage].always_runs:
        if is_done(job):
            say("done in an earlier run")
            _clear_error(run, work.stage)
            return job.out
        with _report_write_errors(run):
            if broadcast(is_main() and try_reuse(job)):
                return job.out
    with served_models(work, run, models):
        return _run_here_or_elsewhere(module, with_identities(work.stage, config, models), job, workspace, work)


def _run_here_or_elsewhere(module: Any, config: StageConfig, job: Job, workspace: Workspace, work: StageWork) -> Path:
    run = workspace.run
    if plan := train_job_plan(work.stage, config):
        workspace.upload()
        run_train_job(plan, work)
        workspace.fetch()
        if not is_done(job):
            raise UserError(f"the TrainJob ended, and {work.stage} is not done; do its nodes see {work.run}?")
        _clear_error(run, work.stage)
        return job.out
    _require_disk_space(run)
    if count := processes_here(work.stage):
        if prepare_inputs := getattr(module, "prepare_inputs", None):
            prepare_inputs(config, job)  # without the half hour that processes wait for each other
        inputs = {name: str(path) for name, path in workspace.inputs.items()}
        run_processes(count, work._replace(run=str(run), inputs=inputs))
        if not is_done(job):
            raise UserError(f"the processes ended, and {work.stage} is not done; see their log")
        _clear_error(run, work.stage)
        return job.out
    start = _stage_start()
    try:
        telemetry.start_from_environment()
        require_accelerators()
        job.progress_file.clear()
        messages: list[str] = []
        with collect_warnings(messages):
            module.run(config, job)
        if messages:
            job.figures["warnings"] = messages
    finally:
        job.calls.close()
    if is_main():
        with _report_write_errors(run):
            close_job(job, time.time() - start)
        _clear_error(run, work.stage)
    return job.out


def _stage_start() -> float:
    """Return the start of the process if the runner passes it, else the time of now."""
    return float(os.environ.get("RUBRICWORKS_STAGE_STARTED") or time.time())


def _require_disk_space(run: Path) -> None:
    """Refuse to start when calls and training steps could not be saved."""
    if (free := shutil.disk_usage(run).free) < _MIN_FREE_BYTES:
        raise TransientError(
            f"{run}: the disk has {free:,} bytes left; make room and run again: what was committed is kept"
        )


@contextmanager
def _report_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(
            f"{folder} cannot be written: {error.strerror or error}; make room or make it writable, and run again: "
            "what was committed is kept"
        ) from error


def _configure_logging() -> None:
    """Send the library's log lines to standard error as they are; other libraries log as the runner set them up."""
    own = logging.getLogger("rubricworks")
    if not own.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(VisibleLines("%(message)s"))
        own.addHandler(handler)
    own.setLevel(logging.INFO)
    own.propagate = False
    logging.getLogger("stamina").setLevel(logging.ERROR)
    warnings.formatwarning = lambda message, *_, **__: f"warning: {visible(str(message))}\n"


def _clear_error(run: Path, stage: str) -> None:
    """Remove the error of an earlier attempt of this stage, but not another stage's (possible on a cluster)."""
    path = run / "error.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads(path.read_bytes())["stage"] != stage:
            return
    path.unlink(missing_ok=True)


def _write_error(run: Path, stage: str, error: BaseException, seconds: float) -> None:
    interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
    message = redact(str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}")
    report: dict[str, object] = {"stage": stage, "message": "interrupted" if interrupted else message}
    report |= {"seconds": round(seconds, 3), **final_mark(error)}
    if isinstance(error, StoppedAtBudget):
        report["more"] = error.more
    if not isinstance(error, UserError) and not interrupted:
        report["traceback"] = redact("".join(traceback.format_exception(error)))
    try:
        write_atomic(run / "error.json", json.dumps(report, indent=2).encode())
    except (OSError, UserError):
        say(f"could not write {run / 'error.json'}; the error was: {message}")


def output_lineage(out: Path, uri: str) -> dict[str, str | int]:
    """Return the metadata of a finished stage's artifact.

    Args:
        out: the stage's folder on this machine.
        uri: its URI.
    """
    done = read_record(out / DONE)
    place = f"{uri}/model" if model_dir(out).is_dir() else uri
    metadata: dict[str, str | int] = {"uri": place, **{name: done[name] for name in ("digest", "stage", "version")}}
    metadata["config_digest"] = done["config"]
    metadata |= {f"{name}_digest": digest for name, digest in done["inputs"].items()}
    if (out / MANIFEST).is_file():
        manifest = read_manifest(out)
        metadata |= {"table": manifest.table, "rows": manifest.rows}
    return metadata
