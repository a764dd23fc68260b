"""Local log of a run's tracking events, one JSON line each, written beside the run's tables before delivery.

Writing a line needs no MLflow, so a stage does not pay for importing it, and a tracking server that goes down during
the night neither stops a training nor loses a point of its curves. `delivery.py` sends the lines to MLflow.
"""

import json
import math
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from rubricworks.redaction import redact

FOLDER = "tracking"
_NAME_LENGTH = 250
PIPELINE = "pipeline"
"""Name of the pipeline's own log; every other log is named after its stage."""


class RunLog:
    """Event log of one stage or of the pipeline; thread-safe."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(path)
        self._file = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def log_metrics(self, values: Mapping[str, float | None], *, step: int = 0) -> None:
        """Log points of curves; None and NaN (not measured) are skipped."""
        measured = {name: value for name, value in values.items() if value is not None}
        points = {metric_name(name): float(value) for name, value in measured.items() if math.isfinite(value)}
        if points:
            self._write("metrics", values=points, step=step)

    def log_params(self, values: Mapping[str, Any]) -> None:
        """Log settings; nested ones become `outer.inner`."""
        self._write("params", values=flatten(values))

    def log_table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log a small table for people (samples, verdicts); a later one of the same name replaces it."""
        columns = list(rows[0]) if rows else []
        self._write("table", name=name, columns=columns, data=[[row.get(column) for column in columns] for row in rows])

    def log_input(self, name: str, uri: str | Path, digest: str, *, context: str = "") -> None:
        """Log an input table: its name, URI and manifest digest."""
        self._write("input", name=name, uri=str(uri), digest=digest, context=context)

    def log_artifact(self, path: str | Path, folder: str = "") -> None:
        """Log a file, or a folder's content, to be stored with the run."""
        self._write("artifact", path=os.path.abspath(path), folder=folder)

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        self._write("tags", values={metric_name(name): str(value) for name, value in tags.items()})

    def set_status(self, status: str) -> None:
        """Set the run's status: RUNNING, FINISHED, FAILED or KILLED."""
        self._write("status", status=status)

    def close(self) -> None:
        self._file.close()

    def _write(self, kind: str, **content: Any) -> None:
        event = {"at": time.time_ns() // 1_000_000, "kind": kind, **content}
        line = json.dumps(event, ensure_ascii=True, default=str).encode() + b"\n"
        with self._lock:
            self._file.write(line)


@contextmanager
def record_run(run: Path, name: str) -> Iterator[RunLog]:
    """Context manager: open the log of a stage or pipeline, and record its start and final status."""
    log = RunLog(log_path(run, name))
    log.set_status("RUNNING")
    try:
        yield log
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
        log.set_tags({"error": redact(str(error)) or type(error).__name__})
        log.set_status("KILLED" if interrupted else "FAILED")
        raise
    else:
        log.set_status("FINISHED")
    finally:
        log.close()


def log_path(run: Path, name: str) -> Path:
    return run / FOLDER / f"{name}.jsonl"


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten {"policy": {"steps": 200}} to {"policy.steps": "200"}; lists of settings are numbered, others JSON."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{key}.")
        else:
            flat[metric_name(key)] = value if isinstance(value, str) else json.dumps(value, default=str)
    return flat


def metric_name(name: str) -> str:
    """Convert to a valid MLflow name: letters, digits, spaces, `_-.:/`, no empty path parts, 250 characters.

    Of a longer name the end is replaced by its digest, so that two names remain two curves.
    """
    short = name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 9]}-{sha256(name.encode()).hexdigest()[:8]}"
    return "/".join(part for part in re.sub(r"[^\w\-. /:]", "_", short).split("/") if part.strip(".")) or "_"


def _drop_torn_line(path: Path) -> None:
    """Remove the incomplete last line of a killed writer."""
    if not path.is_file():
        return
    with path.open("rb+") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
