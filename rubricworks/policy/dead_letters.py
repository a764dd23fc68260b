"""Failed calls of a policy training's step in progress."""

import sys

from rubricworks.grading import FailedCall
from rubricworks.runtime.call_table import Row, grading_dead_letters
from rubricworks.runtime.job import Job
from rubricworks.training.processes import is_main


class DeadLetters:
    """Failed calls of the step in progress. Each class of failure is printed once, not ten thousand times."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._rows: list[Row] = []
        self._printed: set[str] = set()

    def add(self, call: FailedCall) -> None:
        if is_main():
            self._rows += grading_dead_letters(self._job, call)
        if call.error.error_class not in self._printed:
            self._printed.add(call.error.error_class)
            line = f"the judge failed on {call.sample_id}: {call.error}; such rollouts get no reward"
            print(line, file=sys.stderr, flush=True)

    def drain(self) -> list[Row]:
        """Return and clear the collected rows, in an order that does not depend on which request ended first."""
        rows, self._rows = self._rows, []
        return sorted(rows, key=lambda row: (row["sample_id"], row["response"], row["purpose"], row["criterion"]))
