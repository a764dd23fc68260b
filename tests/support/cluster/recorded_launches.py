"""A stand-in for `launch` in the pods of the Kubeflow stand-in, which writes down the run that it is given.

LAUNCHES names the folder; a stage's file there holds the URI of its run.
"""

import os
from pathlib import Path

from rubricworks.runtime import launch as launch_module


def launch(stage: str, config: str, run: str, inputs: dict[str, str], **_: object) -> str:
    (Path(os.environ["LAUNCHES"]) / f"{stage}.launch").write_text(run)
    return f"{run}/{stage}"


launch_module.launch = launch  # type: ignore[assignment]
