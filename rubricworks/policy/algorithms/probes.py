"""Held-out probes: a judge that does not reward scores the policy on samples that it is not trained on.

The hacking alarm compares the score with the reward. The judge should be of a different model family than the rewarding
judge, so that they do not share weaknesses.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from rubricworks.data.tables import Sample, read_samples
from rubricworks.evaluation.scorers.comparisons.pairwise import compare
from rubricworks.grading import FailedCall, Grader
from rubricworks.llm import ChatError
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Response, Rubric
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic
from rubricworks.training.config import ProbeOptions

if TYPE_CHECKING:
    from rubricworks.training.policy.watch import Generate


class CaptionProbe:
    """Pairwise comparison of the policy's greedy captions with those of step 0, stored next to the checkpoints.

    Every sample scores one half at the start.
    """

    def __init__(self, options: ProbeOptions, job: Job, seed: int) -> None:
        self.every = options.every
        self.client = job.client(options.judge, "probe")
        self.samples = list(islice(read_samples(job.inputs["samples"], "held_out"), options.samples))
        self.seed = seed
        self._base_file = job.out / "probe" / "base.json"

    def __call__(self, step: int, generate: "Generate") -> list[float | None]:
        """Return the win over the base on each sample; None where the judge failed."""
        images = [sample.require_image("the policy captions it") for sample in self.samples]
        outputs = generate(images, [sample.prompt for sample in self.samples])
        captions = [caption for caption, _ in outputs]
        if step == 0:
            write_atomic(self._base_file, json.dumps(captions).encode())
            return [0.5] * len(captions)
        return asyncio.run(self._wins(captions, json.loads(self._base_file.read_text())))

    async def _wins(self, captions: list[str], base: list[str]) -> list[float | None]:
        async def win(sample: Sample, caption: str, other: str) -> float | None:
            image = sample.require_image("the judge compares captions of it")
            try:
                return (await compare(self.client, image, caption, other, order="random", seed=self.seed)).win
            except ChatError:
                return None

        return await asyncio.gather(*map(win, self.samples, captions, base))


class ImageProbe:
    """Rubric rewards of the policy's images by the held-out judge, always of the same prompts and seed."""

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

    def __call__(self, step: int, draw: Callable[[Sequence[str]], list[Response]]) -> list[float | None]:
        """Return the reward of each prompt; None where the judge failed. Empty if no held-out prompt has a rubric."""
        if not self.samples:
            return []
        return asyncio.run(self._rewards(draw([sample.prompt for sample in self.samples])))

    async def _rewards(self, responses: Sequence[Response]) -> list[float | None]:
        cards = await asyncio.gather(*map(self.grader.grade, self.samples, responses, self.rubrics))
        return [signed_reward(card.credits, rubric.weights) for card, rubric in zip(cards, self.rubrics, strict=True)]
