"""Rubric refresh: new rubrics during training from the current policy's captions (`rubric.refresh_every`).

At every refresh the current policy captions the samples and the writer writes new rubrics, or adds pitfalls to those in
force (`pitfall_refresh`); a sample for which it finds nothing, or fails, keeps its rubric. Each version is stored next
to the checkpoints, so that a resumed training reads the rubrics of its step.

Several processes share the samples: each captions its part with its copy of the policy and asks the writer, all wait
for the slowest (half an hour at most), the main one stores what they wrote, and all go on with the same rubrics.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.grading import Cascade, Grader
from rubricworks.llm import ChatError
from rubricworks.methods.rubicap.stages.pitfall_refresh import PitfallOptions, PitfallRefresh
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis import synthesize_rubrics
from rubricworks.stages.synthesis.synthesize_rubrics import CaptionedSample, captioned_samples, rubric_writer
from rubricworks.storage import write_atomic
from rubricworks.training.processes import broadcast, gather, is_main, own_share

if TYPE_CHECKING:
    from rubricworks.training.policy.watch import Generate

Reward = Callable[..., Awaitable[list[float | None]]]


class Refresh(BaseModel):
    """Configuration of the rubric refresh."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    every: int = Field(ge=1)
    """Steps between two refreshes."""
    rubric: synthesize_rubrics.Config
    pitfalls: PitfallOptions | None = None
    """Pitfalls that are added to the rubrics, instead of writing them anew."""


class RubricRefresh:
    """Trainer hook that refreshes the rubrics; `reward` wraps a reward to read the newest ones."""

    def __init__(
        self, config: Refresh, job: Job, rubrics: dict[str, str], grader: Grader | Cascade | None, temperature: float
    ) -> None:
        """
        Args:
            rubrics: sample id → rubric, as JSON.
            grader: the policy's judges; pitfalls need them.
            temperature: that of the policy's rollouts.
        """
        client = job.client(config.rubric.writer, "refresh")
        self.writer = rubric_writer(config.rubric, client)
        self._pitfalls: PitfallRefresh | None = None
        if config.pitfalls:
            assert grader is not None, "pitfalls are tested by the policy's judges"
            self._pitfalls = PitfallRefresh(config.pitfalls, client, grader, temperature=temperature)
        self.rubrics = dict(rubrics)
        self._folder = job.out / "refreshed_rubrics"
        inputs = job.inputs
        self._captioned = [
            captioned
            for captioned in captioned_samples(inputs["samples"], inputs["captions"], None)
            if captioned.sample.split == "train" and captioned.sample.sample_id in rubrics
        ]

    def __call__(self, step: int, generate: "Generate") -> None:
        file = self._folder / f"step-{step:06d}.json"
        if not broadcast(file.exists()):
            self._load_before(step)
            own = own_share(self._captioned)
            if self._pitfalls:
                written = gather(self._pitfalls.write(step, own, self.rubrics, generate))
            else:
                written = gather(self._rewrite(own, generate))
            if is_main():
                write_atomic(file, json.dumps(self.rubrics | dict(written)).encode())
        self._read(file)

    def reward(self, reward: Reward) -> Reward:
        """Wrap a reward so that it reads the current rubrics instead of those in the dataset."""

        async def rubric_reward(prompts: Any, completions: Any, **columns: Any) -> list[float | None]:
            current = [self.rubrics[sample_id] for sample_id in columns["sample_id"]]
            return await reward(prompts, completions, **columns | {"rubric": current})

        rubric_reward.criterion = getattr(reward, "criterion", None)  # type: ignore[attr-defined]
        return rubric_reward

    def restore(self, step: int) -> None:
        """Load the rubrics of a step, for a training that resumes there."""
        self._load_before(step + 1)

    def _load_before(self, step: int) -> None:
        earlier = [file for file in sorted(self._folder.glob("step-*.json")) if _file_step(file) < step]
        if broadcast(bool(earlier)):
            self._read(earlier[-1] if earlier else None)

    def _read(self, file: Path | None) -> None:
        """Read the rubrics of a file of the main process, whose folder the others may not have."""
        self.rubrics = broadcast(json.loads(file.read_text()) if is_main() and file else {})

    def _rewrite(self, of: Sequence[CaptionedSample], generate: "Generate") -> list[tuple[str, str]]:
        samples = [captioned.sample for captioned in of]
        images = [sample.require_image("the policy captions it") for sample in samples]
        outputs = generate(images, [sample.prompt for sample in samples])
        return asyncio.run(self._write(of, [caption for caption, _ in outputs]))

    async def _write(self, of: Sequence[CaptionedSample], captions: Sequence[str]) -> list[tuple[str, str]]:
        async def write(captioned: CaptionedSample, caption: str) -> tuple[str, str] | None:
            try:
                result = await self.writer.write(captioned.sample, captioned.candidates, [caption])
            except ChatError:
                return None
            return (captioned.sample.sample_id, result.rubric.model_dump_json()) if result.rubric else None

        return [pair for pair in await asyncio.gather(*map(write, of, captions)) if pair]


def _file_step(file: Path) -> int:
    return int(file.stem.removeprefix("step-"))
