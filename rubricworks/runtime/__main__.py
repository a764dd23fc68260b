"""`python -m rubricworks.runtime STAGE --config JSON --run-uri URI --input NAME=URI …`: a stage, in a pod of a job's.

A node of a TrainJob starts it by torchrun, a part of an Indexed Job by itself. What went wrong is also left where
Kubernetes looks for a container's last words, so that whoever follows the pod can say it.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rubricworks.errors import StoppedAtBudget, UserError
from rubricworks.runtime.launch import launch
from rubricworks.runtime.pods.fan_out import PART, Part

_LAST_WORDS = Path("/dev/termination-log")
_MOST = 1_000
"""Characters of them; Kubernetes keeps 4 KiB."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    inputs = dict(item.split("=", 1) for item in asked.input)
    run = asked.run_uri
    if asked.parts:
        part = Part(int(os.environ.get("JOB_COMPLETION_INDEX", "0")), asked.parts)
        run, os.environ[PART] = part.run_of(run, asked.stage), part.written
    try:
        launch(asked.stage, asked.config, run, inputs)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        _leave_last_words(error)
        return 2
    except Exception as error:
        _leave_last_words(error)
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


def _leave_last_words(error: Exception) -> None:
    """The first process that fails has the word: the others fail for want of it."""
    if not os.environ.get("KUBERNETES_SERVICE_HOST") and "RUBRICWORKS_LAST_WORDS" not in os.environ:
        return
    place = Path(os.environ.get("RUBRICWORKS_LAST_WORDS", _LAST_WORDS))
    ours = isinstance(error, UserError)
    words: dict[str, object] = {"ours": ours, "message": str(error) if ours else f"{type(error).__name__}: {error}"}
    words["message"] = str(words["message"])[:_MOST]
    if isinstance(error, StoppedAtBudget):
        words["more"] = error.more
    with suppress(OSError):
        if not place.exists() or place.stat().st_size == 0:
            place.write_text(json.dumps(words))


if __name__ == "__main__":
    sys.exit(main())
