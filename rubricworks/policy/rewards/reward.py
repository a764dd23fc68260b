"""Reward of a policy training: its settings, and the reward built from them when training starts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from rubricworks.llm import ChatClient
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.step_tables import DeadLetters, GradingTable
from rubricworks.runtime.job import Job
from rubricworks.runtime.preflight_checks import Check
from rubricworks.stages.synthesis.synthesize_rubrics import Config as RubricWriting
from rubricworks.training.config import RefillOptions, Rollouts

if TYPE_CHECKING:
    from rubricworks.training.policy.ended_rows import Start
    from rubricworks.training.policy.response_statistics import Statistic
    from rubricworks.training.policy.rollouts import Penalty
    from rubricworks.training.policy.watch import Refresh

RewardFunction = Callable[..., Any]
"""Async TRL reward function."""


@dataclass(frozen=True)
class Training:
    """Training that a reward is built for."""

    job: Job
    rollouts: Rollouts
    refill: RefillOptions | None
    seed: int
    letters: DeadLetters
    """Dead letters of the reward's failed calls."""
    rubric_writing: RubricWriting | None = None
    """Settings of the stage that wrote the rubrics, for a reward that has them rewritten."""


@dataclass(frozen=True)
class PreparedReward:
    """A reward and what it needs from its training."""

    functions: Sequence[RewardFunction]
    gradings: GradingTable[Any]
    """Table of the functions' gradings, which is their sink."""
    values: Mapping[str, str]
    """sample_id → what the sample is graded by; other samples are not trained on."""
    column: str = "rubric"
    """Column of the data set that holds the values."""
    judges: Sequence[ChatClient] = ()
    """Clients whose calls the progress lines show."""
    weights: Sequence[float] | None = None
    """One per function, 1 by default."""
    start: "Start | None" = None
    """Called with rollouts that end while others of their batch are still being sampled."""
    penalty: "Penalty | None" = None
    """Subtracted from the advantages."""
    refresh: "Refresh | None" = None
    after_step: Callable[[int], None] | None = None
    """Called with the number of each step whose rollouts are stored."""
    statistics: "Sequence[Statistic]" = ()
    """Statistics of responses for the alarm, in addition to the algorithm's own."""


@dataclass(frozen=True)
class TrainingSize:
    """Size of a training, for plans."""

    samples: int
    """Samples to train on."""
    held_out: int
    rollouts: int = 0
    """Responses that are rewarded."""
    steps: int = 0
    criteria: int = 0
    """Criteria of a rubric, where the recipe sets their number."""


class Reward(BaseModel, ABC):
    """Settings of a reward; the field `type` names it."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    @abstractmethod
    def build(self, training: Training) -> PreparedReward:
        """Build the reward.

        Raises:
            UserError: the training's inputs have nothing that it could reward.
        """

    @abstractmethod
    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        """Plan the calls of a training."""

    @abstractmethod
    def describe(self) -> str:
        """Describe it in a sentence or two, for reports."""

    def versions(self) -> dict[str, str]:
        """Versions of other things that the reward depends on."""
        return {}

    def source_files(self) -> dict[str, str]:
        """Field → file that the reward reads, for the checks before a run."""
        return {}

    def checks(self) -> Iterator[Check]:
        """Checks before a run starts."""
        yield from ()
