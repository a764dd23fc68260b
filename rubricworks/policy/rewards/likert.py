"""Likert reward: a judge's rating of the caption as a whole, from 0 to 10 (RubiCap, section 4.1, VLM-judge RL)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rubricworks.adapters.rows import NO_IMAGE, batch_samples, completion_text
from rubricworks.adapters.started_calls import StartedCalls
from rubricworks.data.tables import Sample
from rubricworks.grading import FailedCall
from rubricworks.grading.likert import LIKERT_TOKENS, POINTS, rate_caption
from rubricworks.llm import ChatClient, ChatError, ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS, PlannedCalls
from rubricworks.policy.references import training_references
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import compared_samples
from rubricworks.policy.step_tables import judgment_count
from rubricworks.rubrics import Response


class LikertReward(Reward):
    """Rating of a caption, with or without a reference."""

    type: Literal["likert"]
    judge: ImageEndpoint
    """Sees the image and the caption."""
    reference: bool = False
    """Rate relative to the caption that came with the image (Reference-Likert); by default without (Direct-Likert)."""

    def build(self, training: Training) -> PreparedReward:
        job, judgments = training.job, judgment_count()
        rubrics, references = compared_samples(job), None
        if self.reference:
            references = training_references(job, "which the judge compares with; give the images captions")
            rubrics = {sample_id: text for sample_id, text in rubrics.items() if sample_id in references}
        judge = job.client(self.judge, "judge")
        reward = LikertRating(judge, references, training.letters.add, judgments.add)
        return PreparedReward([reward], judgments, rubrics, judges=[judge], start=reward.start)

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        tokens = image_tokens(self.judge) + (2 if self.reference else 1) * CAPTION_TOKENS + LIKERT_TOKENS
        yield PlannedCalls("judge", self.judge, size.rollouts, tokens, 2)

    def describe(self) -> str:
        reference = "relative to a reference" if self.reference else "without a reference"
        return f"The reward is a rating of the caption by {self.judge.model}, {reference}."


class LikertRating:
    """Async reward function: the judge's rating of the caption as a share of ten; None if it gave none."""

    __name__ = "likert"

    def __init__(
        self,
        judge: ChatClient,
        references: Mapping[str, str] | None,
        on_error: Callable[[FailedCall], None],
        sink: Callable[[list[int]], object],
    ) -> None:
        """
        Args:
            references: sample_id → caption that the rating is relative to; None asks without any.
        """
        self.judge, self.references, self._on_error, self._sink = judge, references, on_error, sink
        self._calls: StartedCalls[float | None] = StartedCalls()

    async def start(
        self, rows: Sequence[int], prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> None:
        """Start to rate some rows of the next batch; see `adapters.trl.RubricReward.start`."""
        ratings = zip(batch_samples(prompts, columns), map(completion_text, completions), strict=True)
        self._calls.start(self._rate, dict(zip(rows, ratings, strict=True)))

    async def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        samples = batch_samples(prompts, columns)
        captions = map(completion_text, completions)
        rewards = await self._calls.gather(self._rate, list(zip(samples, captions, strict=True)))
        self._sink([int(reward is not None) for reward in rewards])
        return rewards

    async def _rate(self, sample: Sample, caption: str) -> float | None:
        image = sample.image or NO_IMAGE
        reference = None if self.references is None else self.references[sample.sample_id]
        try:
            return await rate_caption(self.judge, image, caption, reference) / POINTS
        except ChatError as error:
            model = self.judge.endpoint.model
            self._on_error(FailedCall(sample.sample_id, Response.of(caption), model, ("rating",), error))
            return None
