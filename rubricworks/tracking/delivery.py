"""Delivery of run logs to MLflow: a parent run for the pipeline and a nested run per stage, found by their tags.

A file beside each log holds the position up to which it was delivered. A kill between delivery and that write delivers
some lines twice, which is harmless: every event carries its own time, and MLflow stores equal points once.
"""

import fcntl
import json
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rubricworks.redaction import redact
from rubricworks.storage import write_atomic
from rubricworks.tracking.connection import Connection, TrackingConfig, connect, report_mlflow_errors, tracking_uri
from rubricworks.tracking.identity import mlflow_run
from rubricworks.tracking.runlog import FOLDER, PIPELINE, metric_name

if TYPE_CHECKING:
    from mlflow import MlflowClient

T = TypeVar("T")
log = logging.getLogger(__name__)

# Limits of MLflow's batch call and fields (mlflow.utils.validation).
_METRICS_PER_CALL = 1_000
_PARAMS_PER_CALL = 100
_PARAM_LENGTH = 6_000
_TAG_LENGTH = 5_000
_DIGEST_LENGTH = 36
_READ_BYTES = 4_000_000


def deliver(config: TrackingConfig, run: Path, names: list[str] | None = None) -> None:
    """Deliver the new lines of a run's logs to MLflow.

    Args:
        names: stages whose logs to deliver; all by default.
    Raises:
        UserError: MLflow cannot be reached. The logs stay as they are; call again later.
    """
    paths = [run / FOLDER / f"{name}.jsonl" for name in names] if names else (run / FOLDER).glob("*.jsonl")
    uri = tracking_uri(config, run.parent)
    # The pipeline first: it is the parent of the others.
    pending = sorted(
        (path for path in paths if path.is_file() and _is_pending(path, uri)),
        key=lambda path: (path.stem != PIPELINE, path.stem),
    )
    connection = connect(config, run.parent) if pending else None
    if connection is None:
        return
    with report_mlflow_errors(connection.uri):
        for path in pending:
            with path.open("rb") as lines, _locked_log(lines):
                is_new_run = _deliver_log(connection, run, path, lines)
            if is_new_run and path.stem == PIPELINE:  # those of the stages are nested in it
                others = sorted((run / FOLDER).glob("*.jsonl"))
                pending += [other for other in others if other not in pending]


def _deliver_log(connection: Connection, run: Path, path: Path, lines: Any) -> bool:
    """Deliver the new lines of a log; all of it, and return True, if its MLflow run was deleted meanwhile."""
    position = _read_position(path)
    if not (first := lines.readline()).endswith(b"\n"):
        return False
    run_id = mlflow_run(connection, run, path.stem, started=json.loads(first)["at"])
    # A position of another server, or of another run there, does not count.
    is_same_server = position.get("uri") == connection.safe_uri
    is_deleted = is_same_server and position["run"] != run_id
    offset = position["offset"] if is_same_server and not is_deleted else 0
    if is_deleted:
        log.warning(
            "tracking: the MLflow run %s of %s was deleted, or is another pipeline's; all that was logged goes to %s",
            position["run"],
            path.stem,
            run_id,
        )
    lines.seek(offset)
    while complete := _complete_lines(lines):
        events = [json.loads(line) for line in complete]
        _deliver_events(connection.client, run_id, events)
        offset += sum(map(len, complete))
        lines.seek(offset)
        write_atomic(
            _position_path(path), json.dumps({"uri": connection.safe_uri, "run": run_id, "offset": offset}).encode()
        )
    return is_deleted


def _deliver_events(client: "MlflowClient", run_id: str, events: list[dict[str, Any]]) -> None:
    from mlflow.entities import Metric

    by_kind: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_kind.setdefault(event["kind"], []).append(event)
    metrics = [
        Metric(name, value, event["at"], event["step"])
        for event in by_kind.get("metrics", [])
        for name, value in event["values"].items()
    ]
    for batch in _batches(metrics, _METRICS_PER_CALL):
        client.log_batch(run_id, metrics=batch)
    tags = {name: value for event in by_kind.get("tags", []) for name, value in event["values"].items()}
    tags |= _deliver_params(client, run_id, by_kind.get("params", []))
    tags |= _deliver_inputs(client, run_id, by_kind.get("input", []))
    tags |= _deliver_tables(client, run_id, by_kind.get("table", []))
    _deliver_tags(client, run_id, tags)
    for event in by_kind.get("artifact", []):
        _deliver_artifact(client, run_id, Path(event["path"]), event["folder"] or None)
    for event in by_kind.get("status", []):
        if event["status"] == "RUNNING":
            client.update_run(run_id, status="RUNNING")
        else:
            client.set_terminated(run_id, event["status"], end_time=event["at"])


def _deliver_params(client: "MlflowClient", run_id: str, events: list[dict[str, Any]]) -> dict[str, str]:
    """Log the params; one already logged with another value (a resumed run, --set) cannot change and becomes a tag."""
    from mlflow.entities import Param

    params = {name: value[:_PARAM_LENGTH] for event in events for name, value in event["values"].items()}
    if not params:
        return {}
    logged = client.get_run(run_id).data.params
    new_params = [Param(name, value) for name, value in params.items() if name not in logged]
    for batch in _batches(new_params, _PARAMS_PER_CALL):
        client.log_batch(run_id, params=batch)
    return {metric_name(f"changed.{name}"): value for name, value in params.items() if logged.get(name, value) != value}


def _deliver_inputs(client: "MlflowClient", run_id: str, events: list[dict[str, Any]]) -> dict[str, str]:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = []
    for event in events:
        source = json.dumps({"uri": event["uri"], "digest": event["digest"]})
        dataset = Dataset(
            name=event["name"], digest=event["digest"][:_DIGEST_LENGTH], source_type="rubricworks", source=source
        )
        inputs.append(DatasetInput(dataset, [InputTag("mlflow.data.context", event["context"] or event["name"])]))
    if inputs:
        client.log_inputs(run_id, datasets=inputs)
    return {metric_name(f"input.{event['name']}"): event["digest"] for event in events}


def _deliver_tables(client: "MlflowClient", run_id: str, events: list[dict[str, Any]]) -> dict[str, str]:
    """Store tables in the form that MLflow's pages show; these also require a tag that lists them."""
    tables = {f"{event['name']}.json": {"columns": event["columns"], "data": event["data"]} for event in events}
    if not tables:
        return {}
    for file, table in tables.items():
        client.log_dict(run_id, table, file)
    listed = json.loads(client.get_run(run_id).data.tags.get("mlflow.loggedArtifacts", "[]"))
    listed += [{"path": file, "type": "table"} for file in tables if {"path": file, "type": "table"} not in listed]
    return {"mlflow.loggedArtifacts": json.dumps(listed)}


def _deliver_tags(client: "MlflowClient", run_id: str, tags: dict[str, str]) -> None:
    from mlflow.entities import RunTag

    for batch in _batches((RunTag(name, value[:_TAG_LENGTH]) for name, value in tags.items()), _PARAMS_PER_CALL):
        client.log_batch(run_id, tags=batch)


def _deliver_artifact(client: "MlflowClient", run_id: str, path: Path, folder: str | None) -> None:
    if path.is_dir():
        client.log_artifacts(run_id, str(path), folder)
    elif path.is_file():
        client.log_artifact(run_id, str(path), folder)
    else:
        log.warning("tracking: %s is gone; it was to be stored with the run", path)


def _batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(values)
    while batch := list(islice(source, size)):
        yield batch


def _complete_lines(lines: Any) -> list[bytes]:
    """Read some complete lines, at least one if there is one, but no line that is still being written."""
    return [line for line in lines.readlines(_READ_BYTES) if line.endswith(b"\n")]


def _is_pending(path: Path, uri: str) -> bool:
    position = _read_position(path)
    return position.get("uri") != redact(uri) or position["offset"] < path.stat().st_size


def _read_position(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(_position_path(path).read_bytes()))
    except (OSError, ValueError):
        return {}


def _position_path(path: Path) -> Path:
    return path.with_suffix(".delivered.json")


@contextmanager
def _locked_log(file: Any) -> Iterator[None]:
    """Lock a log, so that one process at a time delivers it; closing the file releases the lock."""
    fcntl.flock(file, fcntl.LOCK_EX)
    yield
