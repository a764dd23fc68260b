"""A pipeline as an MLflow run and its stages as nested ones.

Stages write logs; one process delivers them while the pipeline runs, so that a laptop imports MLflow once, not once a
stage. A stage in a process or pod of its own, with no such pipeline above it, delivers for itself.
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
from rubricworks.tracking.identity import mlflow_run, save_settings, saved_config
from rubricworks.tracking.runlog import PIPELINE, RunLog, log_path, recorded

log = logging.getLogger(__name__)

_DELIVERED_BY_PIPELINE = "RUBRICWORKS_TRACKED_RUN"
_EVERY_SECONDS = 10.0


@contextmanager
def pipeline_run(
    config: TrackingConfig, runs: Path, run_id: str, params: Mapping[str, Any], *, every: float = _EVERY_SECONDS
) -> Iterator[RunLog]:
    """Track a pipeline and whatever its stages log, also from child processes, until the block ends.

    Args:
        runs: the folder of all runs; `mlflow.db` lies there by default.
        run_id: the run's folder in it; entered again, its MLflow run is found again.
        params: the recipe; nested settings become `outer.inner`.
        every: seconds between deliveries.
    Raises:
        UserError: a server was asked for and does not answer.
    """
    run = runs / run_id
    on = check_tracking(config, runs)
    if on:
        save_settings(config, run)
    else:
        log.warning("tracking is off: MLflow is not installed (pip install 'rubricworks[tracking]')")
    before = os.environ.get(_DELIVERED_BY_PIPELINE)
    os.environ[_DELIVERED_BY_PIPELINE] = str(run.absolute())
    try:
        with _delivering(config, run, None, every, on), recorded(run, PIPELINE) as pipeline:
            pipeline.log_params(params)
            yield pipeline
    finally:
        if before is None:
            del os.environ[_DELIVERED_BY_PIPELINE]
        else:
            os.environ[_DELIVERED_BY_PIPELINE] = before


def open_pipeline(config: TrackingConfig, run: Path, params: Mapping[str, Any]) -> None:
    """Begin the MLflow run of a pipeline whose stages share no process with it, or go on with it.

    Raises:
        UserError: the server does not answer or refuses.
    """
    save_settings(config, run)
    log_of_pipeline = RunLog(log_path(run, PIPELINE))
    log_of_pipeline.set_status("RUNNING")
    log_of_pipeline.log_params(params)
    log_of_pipeline.close()
    deliver(config, run, [PIPELINE])


def close_pipeline(run: Path, status: str, tags: Mapping[str, Any]) -> None:
    """End it, if it was begun; trouble with MLflow is told and does not become the run's.

    Args:
        status: FINISHED, FAILED or KILLED.
    """
    log_of_pipeline = RunLog(log_path(run, PIPELINE))
    log_of_pipeline.set_tags(tags)
    log_of_pipeline.set_status(status)
    log_of_pipeline.close()
    if (config := saved_config(run)) is None:
        return
    try:
        deliver(config, run, [PIPELINE])
    except Exception as error:  # whatever it is, the outcome is in the run's folder
        log.warning("tracking: %s. The outcome is not told there", error)


@contextmanager
def stage_run(run: Path, stage: str, *, every: float = _EVERY_SECONDS) -> Iterator[RunLog]:
    """Log a stage of the run in this folder; in MLflow it becomes a run nested in the pipeline's.

    Outside `pipeline_run`, logs are delivered from here if the run's pipeline or MLFLOW_TRACKING_URI says where to; if
    neither does, they stay in the folder.
    """
    config = saved_config(run) or (TrackingConfig() if "MLFLOW_TRACKING_URI" in os.environ else None)
    above = os.environ.get(_DELIVERED_BY_PIPELINE) == str(run.absolute())
    on = config is not None and not above and check_tracking(config, run.parent)
    if on:
        # Here, not in the thread: two threads that import large packages at once can trip over each other.
        connect(config or TrackingConfig(), run.parent)
    with _delivering(config or TrackingConfig(), run, [stage], every, on), recorded(run, stage) as stage_log:
        yield stage_log


def stage_connection(run: Path, stage: str) -> tuple[Connection, str] | None:
    """An open way to MLflow and the id of a stage's run there, for the registry. None when MLflow is not installed."""
    connection = connect(saved_config(run) or TrackingConfig(), run.parent)
    return (connection, mlflow_run(connection, run, stage)) if connection else None


@contextmanager
def _delivering(config: TrackingConfig, run: Path, names: list[str] | None, every: float, on: bool) -> Iterator[None]:
    """Deliver now and then from a thread, and at the end what is left. MLflow's trouble never becomes the run's."""
    if not on:
        yield
        return
    told: set[str] = set()
    ended = threading.Event()

    def carry() -> None:
        try:
            deliver(config, run, names)
        except Exception as error:  # whatever it is, the run is worth more than its curves
            if str(error) not in told:
                log.warning("tracking: %s. The logs in %s are kept and delivered on --resume", error, run / "tracking")
                told.add(str(error))

    def carry_on() -> None:
        while not ended.wait(every):
            carry()

    carrier = threading.Thread(target=carry_on, name="tracking", daemon=True)
    carrier.start()
    try:
        yield
    finally:
        ended.set()
        carrier.join()
        carry()
