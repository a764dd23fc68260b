"""Scores of endpoints as a reward for TRL: one endpoint, or several with fixed weights.

These are the rewards that RubricRL is compared with (section 4.2): a single score such as CLIPScore, HPSv2 or Unified
Reward, and the composites of AR-GRPO and X-Omni, whose weights are the same for every prompt.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

from rubricworks.adapters.rows import completion_response, completion_text
from rubricworks.data.tables import Sample
from rubricworks.errors import UserError
from rubricworks.grading import FailedCall
from rubricworks.grading.images.scores import score_image
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import Response


class ImageScoreReward:
    """TRL reward function: the weighted mean of several endpoints' scores of each image."""

    __name__ = "image_score_reward"

    def __init__(
        self,
        endpoints: Sequence[tuple[ChatClient, float]],
        *,
        on_error: Callable[[FailedCall], None] | None = None,
    ) -> None:
        """
        Args:
            endpoints: clients, each with its weight, above 0.
            on_error: callback for every failed call, for dead letters.
        """
        if not endpoints:
            raise UserError("no scoring endpoint is given; name at least one")
        self.endpoints = tuple(endpoints)
        self._on_error = on_error

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return one reward per completion, None if any endpoint failed on it."""
        names = columns.get("sample_id") or [f"row-{row}" for row in range(len(completions))]
        samples = [
            Sample(sample_id=str(name), image=None, prompt=completion_text(prompt))
            for name, prompt in zip(names, prompts, strict=True)
        ]
        rewards = await asyncio.gather(
            *(
                self._reward(sample, completion_response(completion, sample.sample_id))
                for sample, completion in zip(samples, completions, strict=True)
            )
        )
        if log_metric := columns.get("log_metric"):
            log_metric("image_score_reward/unjudged", sum(reward is None for reward in rewards) / max(len(rewards), 1))
        return list(rewards)

    async def _reward(self, sample: Sample, response: Response) -> float | None:
        scores = await asyncio.gather(*(self._score(client, sample, response) for client, _ in self.endpoints))
        present = [score for score in scores if score is not None]
        if len(present) < len(scores):
            return None
        weights = [weight for _, weight in self.endpoints]
        return math.fsum(w * s for w, s in zip(weights, present, strict=True)) / math.fsum(weights)

    async def _score(self, client: ChatClient, sample: Sample, response: Response) -> float | None:
        try:
            return await score_image(client, sample, response)
        except ChatError as error:
            if self._on_error is not None:
                self._on_error(FailedCall(sample.sample_id, response, client.endpoint.model, ("score",), error))
            return None
