"""Pitfalls from the current policy's failures (`policy.reward.refresh.pitfalls`): what a refresh adds to the rubrics.

The policy draws captions of each sample as in training, the judges grade them by the sample's rubric, and the writer is
shown the worst two and the committee's captions. The same judges test the proposed pitfalls before they are used
(`synthesis.pitfalls`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.grading import Cascade, Grader
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import Rubric
from rubricworks.stages.synthesis.synthesize_rubrics import CaptionedSample
from rubricworks.synthesis import PitfallWriter, add_pitfalls
from rubricworks.training.processes import process_count, process_index

if TYPE_CHECKING:
    from rubricworks.training.policy.watch import Generate

SHOWN = 2
"""Worst captions of a sample that the writer sees."""


class PitfallOptions(BaseModel):
    """Pitfalls that each refresh adds to the rubrics, which it leaves as they are otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    draws: int = Field(default=4, ge=2)
    """Captions of each sample that the policy draws, of which the worst are shown to the writer."""
    most: int = Field(default=3, ge=1)
    """Pitfalls that a rubric has at most; the oldest give way."""


class PitfallRefresh:
    """Pitfalls for a process's share of the samples."""

    def __init__(
        self, options: PitfallOptions, writer: ChatClient, grader: Grader | Cascade, *, temperature: float
    ) -> None:
        """Args: grader: the policy's judges, which grade the captions and test the pitfalls. temperature: that of the
        policy's rollouts.
        """
        self._options, self._temperature = options, temperature
        self._grader = grader
        self._writer = PitfallWriter(writer, grader, most=options.most)

    def write(
        self, step: int, captioned: Sequence[CaptionedSample], rubrics: Mapping[str, str], generate: "Generate"
    ) -> list[tuple[str, str]]:
        """Return sample id and rubric, as JSON, of each sample that gets a pitfall.

        Args:
            rubrics: sample id → rubric in force, as JSON.
        """
        draws = self._options.draws
        samples = [sample.sample for sample in captioned for _ in range(draws)]
        outputs = generate(
            [sample.require_image("the policy captions it") for sample in samples],
            [sample.prompt for sample in samples],
            temperature=self._temperature,
            seed=step * process_count() + process_index(),
        )
        texts = [text for text, _ in outputs]
        drawn = [texts[at : at + draws] for at in range(0, len(texts), draws)]
        return asyncio.run(self._write_all(captioned, drawn, rubrics))

    async def _write_all(
        self, captioned: Sequence[CaptionedSample], drawn: Sequence[Sequence[str]], rubrics: Mapping[str, str]
    ) -> list[tuple[str, str]]:
        async def write(captioned_sample: CaptionedSample, texts: Sequence[str]) -> tuple[str, str] | None:
            sample, rubric = (
                captioned_sample.sample,
                Rubric.model_validate_json(rubrics[captioned_sample.sample.sample_id]),
            )
            failures = await self._worst(captioned_sample, texts, rubric)
            references = [candidate.caption for candidate in captioned_sample.candidates]
            if not failures or not references:
                return None
            try:
                written = await self._writer.write(sample, references, failures, rubric)
            except ChatError:
                return None
            if not written.pitfalls:
                return None
            return sample.sample_id, add_pitfalls(rubric, written.pitfalls, self._options.most).model_dump_json()

        pairs = await asyncio.gather(*map(write, captioned, drawn))
        return [pair for pair in pairs if pair]

    async def _worst(self, sample: CaptionedSample, texts: Sequence[str], rubric: Rubric) -> list[str]:
        """Return the captions of the least reward, without repetition; those that could not be judged are none."""
        unique = list(dict.fromkeys(texts))
        cards = await asyncio.gather(*(self._grader.grade(sample.sample, text, rubric) for text in unique))
        rewards = [signed_reward(card.credits, rubric.weights) for card in cards]
        judged = [(reward, text) for reward, text in zip(rewards, unique, strict=True) if reward is not None]
        return [text for _, text in sorted(judged, key=lambda pair: pair[0])[:SHOWN]]
