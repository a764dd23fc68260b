"""Cost and time of one epoch of policy training: one pass over the training prompts (RubricRL, appendix D)."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rubricworks.reports.costs import ModelCalls, StageCost
from rubricworks.reports.curves import Step
from rubricworks.reports.run_folder import table_rows

STAGE = "train_generator"


class EpochCost(NamedTuple):
    """Time, calls and cost of one epoch, from those of its steps."""

    prompts: int
    images: float
    """Images drawn and graded."""
    calls: float
    """Calls of the reward's models, cached ones included."""
    seconds: float
    dollars: float

    @property
    def seconds_per_image(self) -> float:
        return self.seconds / self.images


def epoch_cost(
    run: Path, steps: Sequence[Step], costs: Sequence[StageCost], calls: Sequence[ModelCalls]
) -> EpochCost | None:
    """Cost of one epoch; None before the training has finished a step and been timed."""
    rubrics = {row["sample_id"] for row in table_rows(run / "write_prompt_rubrics", ["sample_id"])}
    samples = table_rows(run / "prepare_prompts", ["sample_id", "split"])
    prompts = sum(row["split"] == "train" and row["sample_id"] in rubrics for row in samples)
    training = next((cost for cost in costs if cost.stage == STAGE), None)
    groups = ((row["step"], row["sample_id"]) for row in table_rows(run / STAGE / "rollouts", ["step", "sample_id"]))
    visits = sum(1 for _ in groupby(groups))
    if training is None or not training.seconds or not visits or not prompts:
        return None
    epochs = visits / prompts
    rewarding = [one for one in calls if one.stage == STAGE and one.purpose in ("judge", "reward", "text")]
    return EpochCost(
        prompts=prompts,
        images=sum(step.rollouts for step in steps) / epochs,
        calls=sum(one.calls for one in rewarding) / epochs,
        seconds=training.seconds / epochs,
        dollars=sum(one.cost for one in rewarding) / epochs,
    )
