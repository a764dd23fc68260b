"""Which MLflow run belongs to which folder: by MLFLOW_RUN_ID where the environment gives it, else by tags.

Two runs folders may both hold a run `demo` and track it on one server; the key drawn for each run keeps them apart.
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


def save_settings(config: TrackingConfig, run: Path) -> None:
    """Write down where a run is tracked, so that its stages, in processes of their own, know."""
    settings = {"config": config.model_dump(), "key": f"{run.name}-{secrets.token_hex(4)}"}
    settings["key"] = _settings(run).get("key", settings["key"])
    write_atomic(run / FOLDER / _SETTINGS, json.dumps(settings, indent=2).encode())


def saved_config(run: Path) -> TrackingConfig | None:
    """Where a pipeline said that this run is tracked; None if none did."""
    settings = _settings(run)
    return TrackingConfig.model_validate(settings["config"]) if settings else None


def mlflow_run(connection: Connection, run: Path, name: str, *, started: int | None = None) -> str:
    """The MLflow run of a stage (nested) or of the pipeline, made if it is new.

    Args:
        run: the run's folder.
        name: the stage, or PIPELINE.
        started: milliseconds; when a new run began.
    """
    with _one_at_a_time(run):
        pipeline, experiment = _pipeline_run(connection, run, started)
        if name == PIPELINE:
            return pipeline
        tags = {_PARENT_TAG: pipeline, STAGE_TAG: name}
        return _found(connection, experiment, tags) or _made(connection, experiment, name, tags, started)


@contextmanager
def _one_at_a_time(run: Path) -> Iterator[None]:
    """A stage and the pipeline that delivers its log may look for the same run at once: one makes it, one finds it."""
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
    """The run's id and the experiment that it is in."""
    if given := os.environ.get("MLFLOW_RUN_ID"):
        from mlflow.exceptions import MlflowException

        try:
            return given, connection.client.get_run(given).info.experiment_id
        except MlflowException as error:
            raise UserError(
                f"MLFLOW_RUN_ID is {given}, which {connection.shown_uri} does not know; "
                "unset it or set MLFLOW_TRACKING_URI"
            ) from error
    tags = {KEY_TAG: _settings(run).get("key", run.name), STAGE_TAG: PIPELINE}
    found = _found(connection, connection.experiment_id, tags)
    return found or _made(connection, connection.experiment_id, run.name, tags, started), connection.experiment_id


def _found(connection: Connection, experiment: str, tags: dict[str, str]) -> str | None:
    if any("'" in value for value in tags.values()):
        raise UserError(
            f"the run id {tags.get(KEY_TAG)!r} has a quote in it, which MLflow cannot search for; rename the run"
        )
    wanted = " and ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items())
    # Stages that start at once may each have made the parent: all take the first.
    runs = connection.client.search_runs([experiment], wanted, max_results=1, order_by=["attributes.start_time ASC"])
    return runs[0].info.run_id if runs else None


def _made(connection: Connection, experiment: str, name: str, tags: dict[str, str], started: int | None) -> str:
    return connection.client.create_run(experiment, start_time=started, tags=tags, run_name=name).info.run_id


def _settings(run: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((run / FOLDER / _SETTINGS).read_bytes()))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise UserError(f"{run / FOLDER / _SETTINGS}: damaged; delete it and resume the run") from None
