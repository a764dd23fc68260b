"""Rubric refresh: new rubrics during training from the current policy's captions (`policy.reward.refresh`).

At every refresh the current policy captions the samples and the writer writes new rubrics, or adds pitfalls to those in
force (`pitfall_refresh`); a sample for which it finds nothing, or fails, keeps its rubric. Each version is stored next
to the checkpoints, so that a resumed training reads the rubrics of its step.

Several processes share the samples: each captions its part with its copy of the policy and asks the writer, all wait
for the slowest (half an hour at most), the main one stores what they wrote, and all go on with the same rubrics.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubricworks.adapters.trl import RubricReward
from rubricworks.grading import Cascade, Grader
from rubricworks.llm import ChatError
from rubricworks.policy.rewards.pitfall_refresh import PitfallOptions, PitfallRefresh
from rubricworks.runtime.job import Job
from rubricworks.stages.synthesis.synthesize_rubrics import CaptionedSample, Config, captioned_samples, rubric_writer
from rubricworks.storage import write_atomic
from rubricworks.training.processes import broadcast, gather, is_main, own_share

if TYPE_CHECKING:
    from rubricworks.training.policy.watch import Generate


class RubricRefresh:
    """Trainer hook that refreshes the rubrics; `reward` wraps a reward to read the newest ones."""

    def __init__(
        self,
        every: int,
        writing: Config,
        job: Job,
        rubrics: dict[str, str],
        *,
        pitfalls: PitfallOptions | None = None,
        grader: Grader | Cascade | None = None,
        temperature: float = 1.0,
    ) -> None:
        """
        Args:
            every: steps between two refreshes.
            rubrics: sample id → rubric, as JSON.
            pitfalls: add pitfalls instead of rewriting the rubrics.
            grader: the policy's judges; pitfalls need them.
            temperature: that of the policy's rollouts.
        """
        self.every = every
        client = job.client(writing.writer, "refresh")
        self.writer = rubric_writer(writing, client)
        self._pitfalls: PitfallRefresh | None = None
        if pitfalls:
            assert grader is not None, "pitfalls are tested by the policy's judges"
            self._pitfalls = PitfallRefresh(pitfalls, client, grader, temperature=temperature)
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

    def reward(self, reward: RubricReward) -> "RefreshedReward":
        """Wrap a reward so that it reads the current rubrics instead of those in the dataset."""
        return RefreshedReward(self, reward)

    def restore(self, step: int) -> None:
        """Load the rubrics of a step, for a training that resumes there."""
        self._load_before(step + 1)

    def _load_before(self, step: int) -> None:
        earlier = [file for file in sorted(self._folder.glob("step-*.json")) if _file_step(file) < step]
        if broadcast(bool(earlier)):
            self._read(earlier[-1] if earlier else None)

    def _read(self, file: Path | None) -> None:
        """Read the rubrics from a file of the main process and broadcast them, since other processes may not have its
        folder.
        """
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


class RefreshedReward:
    """Rubric reward by the current rubrics."""

    __name__ = "rubric_reward"

    def __init__(self, refresh: RubricRefresh, reward: RubricReward) -> None:
        self._refresh, self._reward = refresh, reward
        self.criterion = reward.criterion

    async def start(
        self, rows: Sequence[int], prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> None:
        """Start to grade some rows of the next batch; see `adapters.trl.RubricReward.start`."""
        await self._reward.start(rows, prompts, completions, **columns | self._current(columns))

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        return await self._reward(prompts, completions, **columns | self._current(columns))

    def _current(self, columns: Mapping[str, Any]) -> dict[str, list[str]]:
        return {"rubric": [self._refresh.rubrics[sample_id] for sample_id in columns["sample_id"]]}


def _file_step(file: Path) -> int:
    return int(file.stem.removeprefix("step-"))
