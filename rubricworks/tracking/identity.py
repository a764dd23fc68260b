"""MLflow run of a run's folder: by MLFLOW_RUN_ID if the environment sets it, else by tags.

Two folders of runs may both hold a run `demo` and track it on one server; a random key per run tells them apart. On a
cluster, MLFLOW_RUN_ID may be of one task only (the MLflow plugin of Kubeflow Pipelines 2.17), so the pipeline's first
task pins the run that all tasks are nested in.
"""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rubricworks.errors import UserError
from rubricworks.storage import write_atomic
from rubricworks.tracking.connection import Connection, TrackingConfig
from rubricworks.tracking.runlog import FOLDER, PIPELINE

KEY_TAG = "rubricworks.key"
STAGE_TAG = "rubricworks.stage"
_PARENT_TAG = "mlflow.parentRunId"
_SETTINGS = "settings.json"
_PINNED = "mlflow_run"
"""Field of the settings: the pipeline's MLflow run, if the environment of the pipeline's first task named one."""


def save_settings(config: TrackingConfig, run: Path) -> None:
    """Save a run's tracking config for its stages, which run in processes of their own."""
    settings = {"config": config.model_dump(), "key": f"{run.name}-{secrets.token_hex(4)}"}
    settings |= {name: value for name, value in _settings(run).items() if name in ("key", _PINNED)}
    write_atomic(run / FOLDER / _SETTINGS, json.dumps(settings, indent=2).encode())


def pin_outermost_run(connection: Connection, run: Path) -> None:
    """Save the outermost MLflow run around MLFLOW_RUN_ID as the pipeline's, for tasks that are given other ids.

    Raises:
        UserError: the server does not know the run.
    """
    if not (run_id := os.environ.get("MLFLOW_RUN_ID")):
        return
    while parent := _get_run(connection, run_id).data.tags.get(_PARENT_TAG):
        run_id = parent
    settings = {**_settings(run), _PINNED: run_id}
    write_atomic(run / FOLDER / _SETTINGS, json.dumps(settings, indent=2).encode())


def saved_config(run: Path) -> TrackingConfig | None:
    """Return the tracking config that the run's pipeline saved; None if it saved none."""
    settings = _settings(run)
    return TrackingConfig.model_validate(settings["config"]) if settings else None


def mlflow_run(connection: Connection, run: Path, name: str, *, started: int | None = None) -> str:
    """Return the id of the MLflow run of a stage (nested) or of the pipeline; create it if needed.

    Args:
        run: the run's folder.
        name: the stage, or PIPELINE.
        started: start time of a new run, in milliseconds.
    """
    with _locked_run(run):
        pipeline, experiment = _pipeline_run(connection, run, started)
        if name == PIPELINE:
            return pipeline
        tags = {_PARENT_TAG: pipeline, STAGE_TAG: name}
        return _find_run(connection, experiment, tags) or _create_run(connection, experiment, name, tags, started)


@contextmanager
def _locked_run(run: Path) -> Iterator[None]:
    """Lock a run's folder, so that a stage and the pipeline that delivers its log do not both create its MLflow run."""
    (run / FOLDER).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(run / FOLDER, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems have no locks on folders.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _pipeline_run(connection: Connection, run: Path, started: int | None) -> tuple[str, str]:
    """Return the ids of the pipeline's run and of its experiment."""
    if run_id := _settings(run).get(_PINNED) or os.environ.get("MLFLOW_RUN_ID"):
        return run_id, _get_run(connection, run_id).info.experiment_id
    tags = {KEY_TAG: _settings(run).get("key", run.name), STAGE_TAG: PIPELINE}
    experiment = connection.experiment_id
    run_id = _find_run(connection, experiment, tags) or _create_run(connection, experiment, run.name, tags, started)
    return run_id, experiment


def _get_run(connection: Connection, run_id: str) -> Any:
    from mlflow.exceptions import MlflowException

    try:
        return connection.client.get_run(run_id)
    except MlflowException as error:
        raise UserError(
            f"MLFLOW_RUN_ID is {run_id}, which {connection.safe_uri} does not know; unset it or set MLFLOW_TRACKING_URI"
        ) from error


def _find_run(connection: Connection, experiment: str, tags: dict[str, str]) -> str | None:
    if any("'" in value for value in tags.values()):
        raise UserError(
            f"the run id {tags.get(KEY_TAG)!r} has a quote in it, which MLflow cannot search for; rename the run"
        )
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
    # Stages that start at once may each have created the parent: all use the first.
    runs = connection.client.search_runs([experiment], query, max_results=1, order_by=["attributes.start_time ASC"])
    return runs[0].info.run_id if runs else None


def _create_run(connection: Connection, experiment: str, name: str, tags: dict[str, str], started: int | None) -> str:
    return connection.client.create_run(experiment, start_time=started, tags=tags, run_name=name).info.run_id


def _settings(run: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((run / FOLDER / _SETTINGS).read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise UserError(f"{run / FOLDER / _SETTINGS}: damaged; delete it and resume the run") from None
