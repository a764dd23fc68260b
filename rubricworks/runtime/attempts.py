"""Attempts of a task on Kubeflow: none follows an error that would occur again.

A compiled pipeline can say how often Kubeflow starts a failed task again and after which pause, not after which errors
(`PipelineTaskSpec.RetryPolicy`, up to 2.17). So an attempt after a user's mistake ends with the same error before it
downloads or loads anything, and holds its accelerators for moments. `runs retry` begins with a first attempt, which
looks again.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from rubricworks.errors import StoppedAtBudget, TransientError, UserError
from rubricworks.runtime.store.run_state import ERROR_FILE, STATE
from rubricworks.storage import is_remote, open_bucket

ATTEMPT_ENV = "RUBRICWORKS_ATTEMPT"
"""Environment variable: Argo's name of the pod's node, which ends in the number of the attempt, as in `main(2)`."""
ATTEMPT_FIELD = "metadata.annotations['workflows.argoproj.io/node-name']"
"""Field of the pod that holds it."""
FINAL_FOR = "final_for"
"""Key of `error.json`: the task whose further attempts would fail with the same error."""


def final_mark(error: BaseException) -> dict[str, str]:
    """Return the key that marks an error as final for this task; empty if another attempt may go better."""
    task, _ = _current_attempt()
    is_final = isinstance(error, UserError) and not isinstance(error, TransientError)
    return {FINAL_FOR: task} if task and is_final else {}


def refuse_futile_attempt(stage: str, run: str, folder: Path) -> None:
    """Raise the error of this task's earlier attempt again if it was final.

    Args:
        run: URI of the run.
        folder: the run's folder on this machine.
    """
    task, number = _current_attempt()
    if not number:
        return
    error = _earlier_error(stage, run, folder)
    if error.get("stage") != stage or error.get(FINAL_FOR) != task:
        return
    message = str(error["message"])
    raise StoppedAtBudget(message, str(error["more"])) if "more" in error else UserError(message)


def _current_attempt() -> tuple[str, int]:
    """Return the task's name and the number of this attempt, from 0; an empty name outside Kubeflow."""
    match = re.fullmatch(r"(.+)\((\d+)\)", os.environ.get(ATTEMPT_ENV, ""))
    return (match[1], int(match[2])) if match else ("", 0)


def _earlier_error(stage: str, run: str, folder: Path) -> Mapping[str, object]:
    try:
        if is_remote(run):
            content = open_bucket(run).below(STATE, stage).read(ERROR_FILE)
        else:
            content = (folder / ERROR_FILE).read_bytes()
        error = json.loads(content)
    except (FileNotFoundError, ValueError):  # a UserError is a ValueError: the stage itself will meet it
        return {}
    return error if isinstance(error, dict) else {}
