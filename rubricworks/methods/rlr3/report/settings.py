"""What an RLR³ run was made of and what goes on from it: its tables, its judge, its next commands."""

import shlex
from pathlib import Path
from typing import Any

from rubricworks.reports.settings import (
    Command,
    CountedTable,
    TableCount,
    compare_command,
    resume_command,
    table_counts,
)

_TABLES = (CountedTable("write_checklists", "checklists", "writer"),)
_EXPOSURES = {
    "text": ", shown neither the image nor the verifiers' targets",
    "image": ", shown the image as well",
    "targets": ", shown the verifiers' targets as well",
    "unverified": ", given the targets as words and no verifier",
}
"""By the policy's `exposure`."""


def rlr3_tables(run: Path) -> list[TableCount]:
    """What the stages made, counted from the tables themselves."""
    return table_counts(run, _TABLES, "prepare_questions", "question")


def reward_sentence(recipe: dict[str, Any]) -> str:
    """How RLR³'s rewards came about, ablations included; without a recipe nothing is claimed of the run."""
    policy = recipe.get("policy")
    if not isinstance(policy, dict):
        return "RLR³ executes the whole checklist."
    judge = policy.get("judge")
    model = judge.get("model") if isinstance(judge, dict) else None
    shown = _EXPOSURES.get(str(policy.get("exposure", "text")), "")
    parts = [
        "credits are remapped in each group" if policy.get("remap", True) else "credits are not remapped",
        "a failed essential criterion gives 0" if policy.get("gate", True) else "no criterion gates the reward",
    ]
    return f"For RLR³ {model or 'a judge'} executes the whole checklist{shown}; {', and '.join(parts)}."


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
