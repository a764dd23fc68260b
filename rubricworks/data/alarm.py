"""The alarm of reward hacking, as the folder of a training keeps it: `alarm.json`.

A folder without the file is of a training that has not finished, or that nothing watched.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from rubricworks.errors import UserError
from rubricworks.storage import write_atomic

ALARM_FILE = "alarm.json"

State = Literal["fired", "silent", "too_short", "no_reward"]
"""no_reward: the training learns from examples, and has no reward that it could game."""


class Alarm(BaseModel):
    """Outcome of the alarm; if it fired, the step from which the reward is not to be trusted, and the reasons."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    state: State = "fired"
    step: int | None = None
    """Step at which it fired."""
    reasons: tuple[str, ...] = ()
    onset: int | None = None
    """Last step at which the policy was at its best."""

    @model_validator(mode="after")
    def _fires_at_a_step(self) -> "Alarm":
        if self.state == "fired" and self.step is None:
            raise ValueError("step: an alarm that fired has one")
        return self

    @property
    def has_fired(self) -> bool:
        return self.state == "fired"

    def __str__(self) -> str:
        if not self.has_fired:
            return {"silent": "silent", "too_short": "too short to tell", "no_reward": "no reward"}[self.state]
        best = "" if self.onset is None else f", best at step {self.onset}"
        return f"step {self.step}{best}: {'; '.join(self.reasons) or 'no reason was recorded'}"


def write_alarm(folder: Path, alarm: Alarm) -> None:
    """Write the outcome of a training's alarm at its end."""
    write_atomic(folder / ALARM_FILE, alarm.model_dump_json().encode())


def read_outcome(folder: Path) -> Alarm | None:
    """Outcome of a training's alarm; None if there is no file.

    Raises:
        UserError: the file holds something else.
    """
    path = folder / ALARM_FILE
    content = path.read_bytes().strip() if path.is_file() else b""
    if content in (b"", b"null"):
        return None
    try:
        return Alarm.model_validate_json(content)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise UserError(f"{path}: {where}: {problem['msg']}; run the stage {folder.name} again") from error


def read_alarm(folder: Path) -> Alarm | None:
    """The alarm of a training; None if it has not fired, or has no file.

    Raises:
        UserError: the file holds something else.
    """
    outcome = read_outcome(folder)
    return outcome if outcome and outcome.has_fired else None
