"""Endpoint reward: scores of servers for an image, as RubricRL's baselines reward (`grading.images.scores`)."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from rubricworks.adapters.image_scores import ImageScoreReward
from rubricworks.grading.images.scores import ScoreEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import PlannedCalls
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import compared_samples
from rubricworks.policy.step_tables import scorecard_table

_PROMPT, _SCORE = 60, 10
"""Tokens of the prompt that an image was drawn from, and of an answer."""


class EndpointsReward(Reward):
    """Score of one endpoint, or the weighted mean of several; the weights are the same for every prompt."""

    type: Literal["endpoints"]
    endpoints: tuple[ScoreEndpoint, ...] = Field(min_length=1)
    """Endpoints whose scores are summed with weights."""

    def build(self, training: Training) -> PreparedReward:
        judges = [training.job.client(endpoint, "reward") for endpoint in self.endpoints]
        weighted = [(judge, endpoint.weight) for judge, endpoint in zip(judges, self.endpoints, strict=True)]
        reward = ImageScoreReward(weighted, on_error=training.letters.add)
        rubrics = compared_samples(training.job)
        return PreparedReward(functions=[reward], gradings=scorecard_table(), values=rubrics, judges=judges)

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        for endpoint in self.endpoints:
            yield PlannedCalls("reward", endpoint, size.rollouts, _PROMPT + image_tokens(endpoint), _SCORE)

    def describe(self) -> str:
        return f"The reward is the score of {', '.join(endpoint.model for endpoint in self.endpoints)}."
