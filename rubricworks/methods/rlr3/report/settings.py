"""Tables of an RLR³ run, its reward in a sentence, and the commands to run next."""

import shlex
from pathlib import Path
from typing import Any

from rubricworks.evaluation.audit.summary import SUMMARY_FILE
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
"""Exposure of the policy's judge → text."""


def rlr3_tables(run: Path) -> list[TableCount]:
    """Count the rows of the stages' tables."""
    return table_counts(run, _TABLES, "prepare_questions", "question")


def reward_sentence(recipe: dict[str, Any]) -> str:
    """Describe RLR³'s reward, including ablations; only in general without a recipe."""
    policy = recipe.get("policy")
    if not isinstance(policy, dict):
        return "RLR³ executes the whole checklist."
    judge = policy.get("judge")
    model = judge.get("model") if isinstance(judge, dict) else None
    exposure = _EXPOSURES.get(str(policy.get("exposure", "text")), "")
    parts = [
        "credits are remapped in each group" if policy.get("remap", True) else "credits are not remapped",
        "a failed essential criterion gives 0" if policy.get("gate", True) else "no criterion gates the reward",
    ]
    return f"For RLR³ {model or 'a judge'} executes the whole checklist{exposure}; {', and '.join(parts)}."


def rlr3_commands(run: Path, recipe: dict[str, Any]) -> list[Command]:
    """Commands to run next, ready to paste."""
    commands = [resume_command(run)]
    if (run / "audit" / SUMMARY_FILE).is_file():
        source = shlex.quote(str(run / "audit"))
        commands.append(
            Command(
                "Audit another judge on this run's responses",
                f"rubricworks audit {shlex.quote(str(run))} --from {source} --judge MODEL@URL --out audits/MODEL",
            )
        )
    return [*commands, compare_command(run, recipe)]
