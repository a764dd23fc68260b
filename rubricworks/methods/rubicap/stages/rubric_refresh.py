"""Rubrics written anew during training, from captions of the policy as it is then (`rubric.refresh_every`).

Before every so many steps, the samples are captioned by the current policy and the writer is asked again; where it
finds nothing left to ask for, or fails, the sample keeps the rubric it had. Each version stays beside the checkpoints,
so that a resumed training reads the rubrics that were in force.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.llm import ChatError
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis import synthesize_rubrics
from rubricworks.stages.synthesis.synthesize_rubrics import CaptionedSample, captioned_samples, rubric_writer
from rubricworks.storage import write_atomic

if TYPE_CHECKING:
    from rubricworks.training.watch import Generate

Reward = Callable[..., Awaitable[list[float | None]]]


class Refresh(BaseModel):
    """Rubrics written anew during training, from the captions of the policy as it is then."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    every: int = Field(ge=1)
    """Steps between two rewritings."""
    rubric: synthesize_rubrics.Config


class RubricRefresh:
    """Called by the trainer at the steps of a refresh; `reward` gives the reward that reads the newest rubrics."""

    def __init__(self, config: Refresh, job: Job, rubrics: dict[str, str]) -> None:
        self.writer = rubric_writer(config.rubric, job.client(config.rubric.writer, "refresh"))
        self.rubrics = dict(rubrics)
        self._folder = job.out / "refreshed_rubrics"
        inputs = job.inputs
        self._described = [
            described
            for described in captioned_samples(inputs["samples"], inputs["captions"], None)
            if described.sample.split == "train" and described.sample.sample_id in rubrics
        ]

    def __call__(self, step: int, generate: "Generate") -> None:
        file = self._folder / f"step-{step:06d}.json"
        if not file.exists():
            self._read_before(step)
            drawn = generate([d.sample.image for d in self._described], [d.sample.prompt for d in self._described])
            written = asyncio.run(self._write([caption for caption, _ in drawn]))
            write_atomic(file, json.dumps(self.rubrics | written).encode())
        self.rubrics = json.loads(file.read_text())

    def reward(self, reward: Reward) -> Reward:
        """The same reward on the rubrics in force instead of those in the dataset."""

        async def rubric_reward(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
            current = [self.rubrics[sample_id] for sample_id in columns["sample_id"]]
            return await reward(prompts, completions, **columns | {"rubric": current})

        return rubric_reward

    def restore(self, step: int) -> None:
        """Take up the rubrics in force at a step, for a training that continues there."""
        self._read_before(step + 1)

    def _read_before(self, step: int) -> None:
        earlier = [file for file in sorted(self._folder.glob("step-*.json")) if _step_of(file) < step]
        if earlier:
            self.rubrics = json.loads(earlier[-1].read_text())

    async def _write(self, captions: list[str]) -> dict[str, str]:
        async def write(described: CaptionedSample, caption: str) -> tuple[str, str] | None:
            try:
                result = await self.writer.write(described.sample, described.candidates, [caption])
            except ChatError:
                return None
            return (described.sample.sample_id, result.rubric.model_dump_json()) if result.rubric else None

        written = await asyncio.gather(*map(write, self._described, captions))
        return dict(pair for pair in written if pair)


def _step_of(file: Path) -> int:
    return int(file.stem.removeprefix("step-"))
