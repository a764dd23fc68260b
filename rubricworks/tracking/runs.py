"""Tracking of pipelines as MLflow runs, with their stages as nested runs.

Stages write logs; one process delivers them while the pipeline runs, so that a laptop imports MLflow once, not once per
stage. A stage in a process or pod of its own, without such a pipeline, delivers its own log.
"""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rubricworks.tracking.connection import Connection, TrackingConfig, check_tracking, connect
from rubricworks.tracking.delivery import deliver
from rubricworks.tracking.identity import mlflow_run, pin_outermost_run, save_settings, saved_config
from rubricworks.tracking.runlog import PIPELINE, RunLog, log_path, record_run
from rubricworks.training.processes import is_main

log = logging.getLogger(__name__)

_DELIVERING_PIPELINE = "RUBRICWORKS_TRACKED_RUN"
_INTERVAL_SECONDS = 10.0


@contextmanager
def pipeline_run(
    config: TrackingConfig, runs: Path, run_id: str, params: Mapping[str, Any], *, every: float = _INTERVAL_SECONDS
) -> Iterator[RunLog]:
    """Track a pipeline and its stages' logs, also those of child processes, until the block ends.

    Args:
        runs: the folder of all runs; `mlflow.db` is there by default.
        run_id: name of the run's folder; a resumed run continues its MLflow run.
        params: the recipe; nested settings become `outer.inner`.
        every: seconds between deliveries.
    Raises:
        UserError: a configured server does not answer.
    """
    run = runs / run_id
    is_on = check_tracking(config, runs)
    if is_on:
        save_settings(config, run)
    else:
        log.warning("tracking is off: MLflow is not installed (pip install 'rubricworks[tracking]')")
    previous = os.environ.get(_DELIVERING_PIPELINE)
    os.environ[_DELIVERING_PIPELINE] = str(run.absolute())
    try:
        with _background_delivery(config, run, None, every, is_on), record_run(run, PIPELINE) as pipeline:
            pipeline.log_params(params)
            yield pipeline
    finally:
        if previous is None:
            del os.environ[_DELIVERING_PIPELINE]
        else:
            os.environ[_DELIVERING_PIPELINE] = previous


def open_pipeline(config: TrackingConfig, run: Path, params: Mapping[str, Any]) -> None:
    """Start or continue the MLflow run of a pipeline whose stages run in other pods.

    Raises:
        UserError: the server does not answer or refuses.
    """
    save_settings(config, run)
    if connection := connect(config, run.parent):
        pin_outermost_run(connection, run)
    pipeline_log = RunLog(log_path(run, PIPELINE))
    pipeline_log.set_status("RUNNING")
    pipeline_log.log_params(params)
    pipeline_log.close()
    deliver(config, run, [PIPELINE])


def close_pipeline(run: Path, status: str, tags: Mapping[str, Any]) -> None:
    """End the MLflow run of a pipeline, if it was started; an error of MLflow is only logged.

    Args:
        status: FINISHED, FAILED or KILLED.
    """
    pipeline_log = RunLog(log_path(run, PIPELINE))
    pipeline_log.set_tags(tags)
    pipeline_log.set_status(status)
    pipeline_log.close()
    if (config := saved_config(run)) is None:
        return
    try:
        deliver(config, run, [PIPELINE])
    except Exception as error:  # the outcome is in the run's folder in any case
        log.warning("tracking: %s. The outcome is not told there", error)


@contextmanager
def stage_run(run: Path, stage: str, *, every: float = _INTERVAL_SECONDS) -> Iterator[RunLog]:
    """Log a stage of the run in this folder; in MLflow it becomes a run nested in the pipeline's.

    Outside `pipeline_run`, the log is delivered from this process if the run's pipeline saved a tracking config or
    MLFLOW_TRACKING_URI is set; otherwise it stays in the folder. Of a training's processes, only the first writes.
    """
    if not is_main():
        yield RunLog(Path(os.devnull))
        return
    config = saved_config(run) or (TrackingConfig() if "MLFLOW_TRACKING_URI" in os.environ else None)
    in_pipeline = os.environ.get(_DELIVERING_PIPELINE) == str(run.absolute())
    is_on = config is not None and not in_pipeline and check_tracking(config, run.parent)
    if is_on:
        # Connect here, not in the thread: two threads that import large packages at once can interfere.
        connect(config or TrackingConfig(), run.parent)
    with (
        _background_delivery(config or TrackingConfig(), run, [stage], every, is_on),
        record_run(run, stage) as stage_log,
    ):
        yield stage_log


def stage_connection(run: Path, stage: str) -> tuple[Connection, str] | None:
    """Return a connection and the id of a stage's MLflow run, for the registry; None if MLflow is not installed."""
    connection = connect(saved_config(run) or TrackingConfig(), run.parent)
    return (connection, mlflow_run(connection, run, stage)) if connection else None


@contextmanager
def _background_delivery(
    config: TrackingConfig, run: Path, names: list[str] | None, every: float, is_on: bool
) -> Iterator[None]:
    """Deliver periodically from a thread, and the rest at the end. Errors of MLflow are only logged."""
    if not is_on:
        yield
        return
    logged: set[str] = set()
    stop = threading.Event()

    def try_deliver() -> None:
        try:
            deliver(config, run, names)
        except Exception as error:  # no error of tracking may stop the run
            if str(error) not in logged:
                log.warning("tracking: %s. The logs in %s are kept and delivered on --resume", error, run / "tracking")
                logged.add(str(error))

    def deliver_repeatedly() -> None:
        while not stop.wait(every):
            try_deliver()

    thread = threading.Thread(target=deliver_repeatedly, name="tracking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        try_deliver()
