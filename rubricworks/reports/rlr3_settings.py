"""What an RLR³ run was made of and what goes on from it: its tables, its judge, its next commands."""

import shlex
from pathlib import Path
from typing import Any

from rubricworks.reports.settings import (
    Command,
    MadeTable,
    TableCount,
    compare_command,
    resume_command,
    table_counts,
)

_TABLES = (MadeTable("write_checklists", "checklists", "writer"),)


def rlr3_tables(run: Path) -> list[TableCount]:
    """What the stages made, counted from the tables themselves."""
    return table_counts(run, "prepare_questions", "question", _TABLES)


def reward_judge(recipe: dict[str, Any]) -> str:
    """The model that executed checklists for the policy's rewards; empty if the recipe does not say."""
    policy = recipe.get("policy")
    judge = policy.get("judge") if isinstance(policy, dict) else None
    return str(judge.get("model") or "") if isinstance(judge, dict) else ""


def rlr3_commands(run: Path, recipe: dict[str, Any]) -> list[Command]:
    """What people want to do next, ready to paste."""
    commands = [resume_command(run)]
    if (run / "audit" / "audit.json").is_file():
        again = shlex.quote(str(run / "audit"))
        commands.append(
            Command(
                "Audit another judge on this run's responses",
                f"rubricworks audit {shlex.quote(str(run))} --from {again} --judge MODEL@URL --out audits/MODEL",
            )
        )
    return [*commands, compare_command(run, recipe)]
