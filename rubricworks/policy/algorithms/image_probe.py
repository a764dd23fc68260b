"""Held-out judge: another model's reward for images of prompts that the policy is not trained on, during training.

The hacking alarm compares it with the reward. It should be of another family than the judge that rewards, so that what
sways one does not sway the other.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from rubricworks.data.tables import read_samples
from rubricworks.grading import FailedCall, Grader
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Response, Rubric
from rubricworks.runtime.job import Job
from rubricworks.training.config import ProbeOptions


class ImageProbe:
    """Mean rubric reward of the policy's images by the held-out judge, always of the same prompts and seed."""

    def __init__(
        self,
        options: ProbeOptions,
        job: Job,
        rubrics: Mapping[str, str],
        *,
        on_error: Callable[[FailedCall], None],
    ) -> None:
        """
        Args:
            rubrics: sample_id → rubric as JSON.
        """
        self.every = options.every
        self.grader = Grader(job.client(options.judge, "probe"), on_error=on_error)
        held_out = read_samples(job.inputs["samples"], "held_out")
        self.samples = list(islice((sample for sample in held_out if sample.sample_id in rubrics), options.samples))
        self.rubrics = [Rubric.model_validate_json(rubrics[sample.sample_id]) for sample in self.samples]

    def __call__(self, step: int, draw: Callable[[Sequence[str]], list[Response]]) -> float | None:
        """Return the mean reward; None if the judge failed on every image, or no held-out prompt has a rubric."""
        if not self.samples:
            return None
        responses = draw([sample.prompt for sample in self.samples])
        rewards = [reward for reward in asyncio.run(self._rewards(responses)) if reward is not None]
        return sum(rewards) / len(rewards) if rewards else None

    async def _rewards(self, responses: Sequence[Response]) -> list[float | None]:
        cards = await asyncio.gather(*map(self.grader.grade, self.samples, responses, self.rubrics))
        return [signed_reward(card.credits, rubric.weights) for card, rubric in zip(cards, self.rubrics, strict=True)]
