"""Progress of a stage at work as one small file of the run, which others read without its log or tables.

state/STAGE/progress.json    replaced every few seconds; a store gets it with the stage's other state
"""

import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.runtime.store.run_state import PROGRESS_FILE, STATE
from rubricworks.storage import write_atomic
from rubricworks.training.processes import is_main

_EVERY_S = 4.0
"""Less than the time between two lines of `progress`, each of which replaces the file."""


class StageProgress(BaseModel):
    """Items or steps that a stage has done of all, and what the run has cost by then."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    done: int
    total: int
    unit: str
    """Such as `samples` or `steps`."""
    rate: float
    """Units a second, in this attempt."""
    seconds_left: float | None
    """None before there is a rate, and at the end."""
    tokens: int
    """Tokens of the whole run so far."""
    dollars: float


class ProgressFile:
    """Progress file of one stage; what cannot be written is left out, and the stage goes on."""

    def __init__(self, run: Path, stage: str) -> None:
        self._run, self._path = run, run / progress_path(stage)
        self._next = 0.0

    def write(self, done: int, total: int, unit: str, rate: float) -> None:
        """Replace the file, unless it was replaced a moment ago and there is more to come. The main process alone does.

        Args:
            rate: units a second.
        """
        now = time.monotonic()
        if not is_main() or (now < self._next and done < total):
            return
        self._next = now + _EVERY_S
        left = (total - done) / rate if rate > 0 and done < total else None
        try:
            spending = read_spending(self._run / SPENDING_FILE)
            progress = StageProgress(
                done=done,
                total=total,
                unit=unit,
                rate=rate,
                seconds_left=left,
                tokens=sum(row["prompt_tokens"] + row["completion_tokens"] for row in spending),
                dollars=sum(row["cost"] for row in spending),
            )
            write_atomic(self._path, progress.model_dump_json().encode())
        except (UserError, ValidationError):
            return

    def clear(self) -> None:
        """Drop the file of an earlier attempt."""
        if is_main():
            self._path.unlink(missing_ok=True)


def progress_path(stage: str) -> str:
    """Path of a stage's progress below the run's folder."""
    return f"{STATE}/{stage}/{PROGRESS_FILE}"


def parse_progress(content: bytes | None) -> StageProgress | None:
    """Progress that a file holds; None if there is none, or it is damaged."""
    try:
        return StageProgress.model_validate_json(content) if content else None
    except ValidationError:
        return None
