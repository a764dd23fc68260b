"""The sections of every run's page about the run itself: time, money, failures, stages (record.html)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rubricworks.llm.identity import IDENTITY_FILE, read_identities
from rubricworks.llm.spending import read_budget
from rubricworks.reports.costs import ModelCalls, StageCost
from rubricworks.reports.run_folder import DeadLetters, read_rejected, read_stage_records
from rubricworks.reports.settings import recipe_models


def record_values(
    run: Path,
    recipe: dict[str, Any],
    *,
    calls: Sequence[ModelCalls],
    costs: Sequence[StageCost],
    dead_letters: Sequence[DeadLetters],
    noun: str = "image",
    stage: str = "prepare",
) -> dict[str, Any]:
    """The values of record.html.

    Args:
        noun: one sample in the page's words, such as "image".
        stage: the stage that reads the samples and may reject some.
    """
    return {
        "costs": costs,
        "calls": calls,
        "budget": read_budget(run),
        "tokens": sum(call.prompt_tokens + call.completion_tokens for call in calls),
        "dead_letters": dead_letters,
        "rejected": read_rejected(run, stage),
        "source": {"noun": noun, "stage": stage},
        "models": recipe_models(recipe),
        "identities": [
            (model, entry) for model, entries in read_identities(run / IDENTITY_FILE).items() for entry in entries
        ],
        "stages": read_stage_records(run),
    }
