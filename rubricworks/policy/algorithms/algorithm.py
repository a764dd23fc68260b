"""Algorithm of a policy training: its settings, and how it trains."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel

from rubricworks.llm import Endpoint
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.rewards.reward import Reward, TrainingSize
from rubricworks.runtime.config import StageConfig
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis.synthesize_rubrics import Config as RubricWriting
from rubricworks.training.config import AdamW


@dataclass(frozen=True)
class PolicyStage:
    """The stage that an algorithm trains in."""

    config: StageConfig
    job: Job
    reward: Reward | None
    rubric_writing: RubricWriting | None = None
    """Settings of the stage that wrote the rubrics."""


class Algorithm(BaseModel, ABC):
    """Settings of an algorithm; the field `type` names it."""

    rewards: ClassVar[Sequence[str]] = ("any",)
    """Types of reward that it trains on: `any`, some, or none."""

    @property
    def trains_adapters(self) -> bool:
        """True if adapters are trained, not all weights."""
        optimizer = getattr(self, "optimizer", None)
        return isinstance(optimizer, AdamW) and optimizer.adapters is not None

    @abstractmethod
    def train(self, stage: PolicyStage) -> None:
        """Train the stage's input model and write the result into the job's folder."""

    @abstractmethod
    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        """Plan the calls of a training.

        Args:
            captioners: models whose captions the run has anyway.
        """

    @abstractmethod
    def describe(self) -> str:
        """Describe it in a sentence or two, for reports."""

    def versions(self) -> dict[str, str]:
        """Versions of what the training depends on besides its settings."""
        return {}
