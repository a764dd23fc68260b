"""What every run's page says of the run itself, whatever it trained: time, money, failures, stages (record.html)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rubricworks.llm.spending import read_budget
from rubricworks.reports.costs import ModelCalls, StageCost
from rubricworks.reports.run_folder import DeadLetters, read_rejected, read_stage_records
from rubricworks.reports.settings import named_models


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
    """The template's values.

    Args:
        noun: what the run is about.
        stage: the one that reads them, and may reject some.
    """
    return {
        "costs": costs,
        "calls": calls,
        "budget": read_budget(run),
        "tokens": sum(call.prompt_tokens + call.completion_tokens for call in calls),
        "dead_letters": dead_letters,
        "rejected": read_rejected(run, stage),
        "source": {"noun": noun, "stage": stage},
        "models": named_models(recipe),
        "stages": read_stage_records(run),
    }
