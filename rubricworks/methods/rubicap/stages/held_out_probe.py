"""Now and then during training: does a judge still prefer the policy to the base on images it is not trained on?

The score is a win rate, one half at the start; the hacking alarm looks at it beside the reward.
"""

import asyncio
import json
from itertools import islice
from typing import TYPE_CHECKING

from rubricworks.data.tables import Sample, read_samples
from rubricworks.evaluation.scorers.pairwise import compare
from rubricworks.llm import ChatError, Endpoint
from rubricworks.runtime.job import Job
from rubricworks.storage import write_atomic

if TYPE_CHECKING:
    from rubricworks.training.watch import Generate


class HeldOutProbe:
    """Compares greedy captions of the policy with those it gave at step 0, which are kept beside the checkpoints."""

    def __init__(self, endpoint: Endpoint, count: int, job: Job, seed: int) -> None:
        self.client = job.client(endpoint, "probe")
        self.samples = list(islice(read_samples(job.inputs["samples"], "held_out"), count))
        self.seed = seed
        self._base_file = job.out / "probe" / "base.json"

    def __call__(self, step: int, generate: "Generate") -> float | None:
        """The win rate over the base; None where the judge failed on every sample."""
        drawn = generate([sample.image for sample in self.samples], [sample.prompt for sample in self.samples])
        captions = [caption for caption, _ in drawn]
        if step == 0:
            write_atomic(self._base_file, json.dumps(captions).encode())
            return 0.5
        base = json.loads(self._base_file.read_text())
        wins = [win for win in asyncio.run(self._wins(captions, base)) if win is not None]
        return sum(wins) / len(wins) if wins else None

    async def _wins(self, captions: list[str], base: list[str]) -> list[float | None]:
        async def win(sample: Sample, caption: str, against: str) -> float | None:
            try:
                return (await compare(self.client, sample.image, caption, against, order="random", seed=self.seed)).win
            except ChatError:
                return None

        return await asyncio.gather(*map(win, self.samples, captions, base))
