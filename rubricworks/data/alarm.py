"""The alarm of reward hacking, as the folder of a training keeps it: `alarm.json`, null if it has not gone off.

A folder without the file is of a training that nothing watched, or that has not finished.
"""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.storage import write_atomic

ALARM_FILE = "alarm.json"


class Alarm(BaseModel):
    """Step from which the reward is not to be trusted, and the reasons."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    step: int
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"step {self.step}: {'; '.join(self.reasons) or 'no reason was recorded'}"


def write_alarm(folder: Path, alarm: Alarm | None) -> None:
    """Write what the alarm of a training said at its end."""
    write_atomic(folder / ALARM_FILE, alarm.model_dump_json().encode() if alarm else b"null")


def read_alarm(folder: Path) -> Alarm | None:
    """The alarm of a training; None if it has not gone off, or has no file.

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
