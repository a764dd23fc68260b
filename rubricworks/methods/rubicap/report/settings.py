"""Tables of a RubiCap run, and the commands that follow it."""

import shlex
from pathlib import Path
from typing import Any

from rubricworks.reports.settings import Command, MadeTable, compare_command, resume_command

RUBICAP_TABLES = (
    MadeTable("caption_committee", "committee captions", "captioner"),
    MadeTable("caption_student", "student captions", "captioner"),
    MadeTable("synthesize_rubrics", "rubrics", "writer"),
)


def next_commands(run: Path, recipe: dict[str, Any]) -> list[Command]:
    """What people want to do next, ready to paste."""
    commands = [resume_command(run)]
    if (run / "train_policy" / "model").is_dir():
        model = shlex.quote(str(run / "train_policy" / "model"))
        commands.append(
            Command(
                "Caption your images with the trained model",
                f"rubricworks caption IMAGES --model {model} --out captions",
            )
        )
    return [*commands, compare_command(run, recipe)]
