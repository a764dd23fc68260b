"""Listener of a trainer's log lines: metrics to tracking and to the stage's curves, steps to its progress."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rubricworks.runtime.job import Job
from rubricworks.stages.training.trainer_curves import TrainerCurves
from rubricworks.tracking import RunLog

if TYPE_CHECKING:
    from rubricworks.training.progress import StepLog


def step_listener(
    job: Job,
    log: RunLog,
    *,
    choose: Callable[[Mapping[str, float]], Mapping[str, float]] = dict,
) -> "Callable[[StepLog], None]":
    """A trainer's `on_log`.

    Args: choose: selects the metrics of a line to log.
    """
    curves = TrainerCurves(job.run, job.stage)

    def listen(line: "StepLog") -> None:
        if metrics := choose(line.metrics):
            log.log_metrics(dict(metrics), step=line.step)
        curves.add(line)
        rate = 1 / line.seconds_per_step if line.seconds_per_step > 0 else 0.0
        job.progress_file.write(line.step, line.steps, "steps", rate)

    return listen
