"""DiffusionNFT of a flow-matching image generator (RubricRL, appendix 0.A.4; `training.generators.flow_matching`)."""

from collections.abc import Iterator, Sequence
from typing import Literal

from rubricworks.llm import Endpoint
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.algorithms.algorithm import Algorithm, PolicyStage
from rubricworks.policy.algorithms.grpo import policy_plan, train_on_images
from rubricworks.policy.rewards.reward import Reward, TrainingSize
from rubricworks.training.generators.config import DiffusionNftConfig


class DiffusionNft(DiffusionNftConfig, Algorithm):
    """DiffusionNFT of a flow-matching generator."""

    type: Literal["diffusion_nft"]

    def train(self, stage: PolicyStage) -> None:
        from rubricworks.training.generators.flow_matching.diffusion_policy import train_diffusion_policy

        train_on_images(stage, self, train_diffusion_policy)

    def estimate(
        self, reward: Reward | None, size: TrainingSize, captioners: Sequence[Endpoint] = ()
    ) -> Iterator[PlannedCalls]:
        yield from policy_plan(reward, self, size)

    def describe(self) -> str:
        return f"DiffusionNFT trains on it, in its {self.form} form."
