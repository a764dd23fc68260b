"""Held-out probe: the policy's win rate against the base on images it is not trained on, measured during training.

The win rate is one half at the start; the hacking alarm compares it with the reward.
"""

import asyncio
import json
from itertools import islice
from typing import TYPE_CHECKING

from rubricworks.data.tables import Sample, read_samples
from rubricworks.evaluation.scorers.comparisons.pairwise import compare
from rubricworks.llm import ChatError
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic
from rubricworks.training.config import ProbeOptions

if TYPE_CHECKING:
    from rubricworks.training.policy.watch import Generate


class CaptionProbe:
    """Pairwise comparison of the policy's greedy captions with those of step 0, stored next to the checkpoints."""

    def __init__(self, options: ProbeOptions, job: Job, seed: int) -> None:
        self.every = options.every
        self.client = job.client(options.judge, "probe")
        self.samples = list(islice(read_samples(job.inputs["samples"], "held_out"), options.samples))
        self.seed = seed
        self._base_file = job.out / "probe" / "base.json"

    def __call__(self, step: int, generate: "Generate") -> float | None:
        """Return the win rate over the base; None if the judge failed on every sample."""
        images = [sample.require_image("the policy captions it") for sample in self.samples]
        outputs = generate(images, [sample.prompt for sample in self.samples])
        captions = [caption for caption, _ in outputs]
        if step == 0:
            write_atomic(self._base_file, json.dumps(captions).encode())
            return 0.5
        base = json.loads(self._base_file.read_text())
        wins = [win for win in asyncio.run(self._wins(captions, base)) if win is not None]
        return sum(wins) / len(wins) if wins else None

    async def _wins(self, captions: list[str], base: list[str]) -> list[float | None]:
        async def win(sample: Sample, caption: str, other: str) -> float | None:
            image = sample.require_image("the judge compares captions of it")
            try:
                return (await compare(self.client, image, caption, other, order="random", seed=self.seed)).win
            except ChatError:
                return None

        return await asyncio.gather(*map(win, self.samples, captions, base))
