"""`python -m rubricworks.runtime STAGE --config JSON --run-uri URI --input NAME=URI …`: one stage in a pod of a job.

The nodes of a TrainJob start it through torchrun, the parts of an Indexed Job directly. An error is also written to
the container's termination log, so that whoever follows the pod can report it.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rubricworks.errors import StoppedAtBudget, TransientError, UserError
from rubricworks.runtime.launch import launch
from rubricworks.runtime.pods.fan_out import PART_ENV, Part
from rubricworks.runtime.pods.processes import LAST_WORDS
from rubricworks.terminal import say
from rubricworks.training.processes import leave

_TERMINATION_LOG = Path("/dev/termination-log")
_MAX_MESSAGE_CHARS = 1_000
"""Kubernetes keeps 4 KiB of the termination log."""


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    inputs = dict(item.split("=", 1) for item in args.input)
    run = args.run_uri
    if args.parts:
        part = Part(int(os.environ.get("JOB_COMPLETION_INDEX", "0")), args.parts)
        run, os.environ[PART_ENV] = part.run_of(run, args.stage), part.label
    try:
        launch(args.stage, args.config, run, inputs)
        leave()
    except UserError as error:
        say(f"error: {error}")
        _write_termination_message(error)
        # Kubernetes ends a Job on 2, and starts the pod again on 1.
        return 1 if isinstance(error, TransientError) else 2
    except Exception as error:
        _write_termination_message(error)
        raise
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rubricworks.runtime", description="Run one stage of a run.")
    parser.add_argument("stage")
    parser.add_argument("--config", required=True, help="the stage's own configuration as JSON")
    parser.add_argument("--run-uri", required=True, help="URI of the run's folder")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=URI", help="an output that it reads")
    parser.add_argument("--parts", type=int, default=0, help="of so many, make the part JOB_COMPLETION_INDEX alone")
    return parser


def _write_termination_message(error: Exception) -> None:
    """Write the error for Kubernetes; only the first process to fail writes, since the others fail as a consequence."""
    if not os.environ.get("KUBERNETES_SERVICE_HOST") and LAST_WORDS not in os.environ:
        return
    path = Path(os.environ.get(LAST_WORDS, _TERMINATION_LOG))
    is_user_error = isinstance(error, UserError)
    is_final = is_user_error and not isinstance(error, TransientError)
    message = str(error) if is_user_error else f"{type(error).__name__}: {error}"
    content: dict[str, object] = {"ours": is_final, "message": message[:_MAX_MESSAGE_CHARS]}
    if isinstance(error, StoppedAtBudget):
        content["more"] = error.more
    with suppress(OSError):
        if not path.exists() or path.stat().st_size == 0:
            path.write_text(json.dumps(content))


if __name__ == "__main__":
    sys.exit(main())
