"""Bottleneck of a recipe's policy trainings, from the steps that its newest run measured."""

from collections.abc import Iterator
from pathlib import Path

from rubricworks.data.ledger import read_ledger
from rubricworks.policy.policy import Policy
from rubricworks.policy.training import STEP_SECONDS
from rubricworks.recipe import Recipe
from rubricworks.runs.earlier_runs import runs_of

_PARTS = {"sampler": "sampling", "judge": "waiting for the judge", "trainer": "the update"}


def bottleneck_lines(recipe: Recipe, runs: Path) -> Iterator[str]:
    """Yield a line of the plan for each policy training: the slowest part of a step, or that no run measured it.

    Args:
        runs: folder of the earlier runs.
    """
    own = runs_of(recipe, runs)
    for stage, config in recipe.stage_configs().items():
        if not isinstance(config, Policy) or config.reward is None:
            continue
        measured = next(((run, seconds) for run in own if (seconds := _step_seconds(run, stage))), None)
        if measured is None:
            yield f"bottleneck of {stage}: not known, because no run of {recipe.name} in {runs} has measured its steps"
            continue
        run, seconds = measured
        slowest = max(seconds, key=lambda part: seconds[part])
        parts = ", ".join(f"{words} {seconds[part]:.2g} s" for part, words in _PARTS.items())
        yield f"bottleneck of {stage}: the {slowest}; of a step of {run.name}, {parts}"


def _step_seconds(run: Path, stage: str) -> dict[str, float]:
    """Part of a step → its seconds, of the last training of a stage that recorded them; empty if none did."""
    measured: dict[str, float] = {}
    for entry in read_ledger(run):
        seconds = entry.get(STEP_SECONDS)
        if entry["stage"] == stage and isinstance(seconds, dict) and seconds.keys() == _PARTS.keys():
            measured = seconds
    return measured
