"""Exam reward: share of multiple-choice questions answered right from the caption alone (CapRL's reward).

The exam writer sees the image; the exam taker reads the caption only. A caption without words earns 0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rubricworks.adapters.rows import completion_text
from rubricworks.adapters.started_calls import StartedCalls
from rubricworks.evaluation.scorers.caption_prompts import StoredExam
from rubricworks.evaluation.scorers.caption_qa import ExamTaker, read_exams
from rubricworks.grading import FailedCall
from rubricworks.grading.assertions.texts import has_words
from rubricworks.llm import ChatError, Endpoint, ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS, EXAM_TOKENS, QUESTIONS_PER_EXAM, PlannedCalls
from rubricworks.policy.rewards.reward import PreparedReward, Reward, Training, TrainingSize
from rubricworks.policy.rubric_texts import compared_samples
from rubricworks.policy.step_tables import judgment_count
from rubricworks.rubrics import Response
from rubricworks.runtime.stage_below import main_runs_below
from rubricworks.stages.synthesis import write_exams


class ExamReward(Reward):
    """Accuracy of a text model in an exam about the image."""

    type: Literal["exam"]
    writer: ImageEndpoint
    """A strong vision-language model, which writes an exam for each training sample."""
    taker: Endpoint
    """A text model."""

    def build(self, training: Training) -> PreparedReward:
        job = training.job
        config = write_exams.Config(writer=self.writer, splits=("train",), seed=training.seed)
        exams = read_exams(main_runs_below(write_exams, config, job, {"samples": job.inputs["samples"]}))
        taker, judgments = job.client(self.taker, "exam"), judgment_count()
        reward = ExamAccuracy(
            ExamTaker(taker, seed=training.seed), exams, on_error=training.letters.add, sink=judgments.add
        )
        compared = compared_samples(job)
        values = {sample_id: exam.model_dump_json() for sample_id, exam in exams.items() if sample_id in compared}
        return PreparedReward(functions=[reward], gradings=judgments, values=values, column="exam", judges=[taker])

    def estimate(self, size: TrainingSize) -> Iterator[PlannedCalls]:
        yield PlannedCalls("exam", self.writer, size.samples, image_tokens(self.writer) + 400, EXAM_TOKENS)
        calls = size.rollouts * QUESTIONS_PER_EXAM
        yield PlannedCalls("exam", self.taker, calls, CAPTION_TOKENS + 150, 2)

    def describe(self) -> str:
        return (
            f"The reward is that of CapRL: how many questions {self.taker.model} answers right from the caption alone; "
            f"{self.writer.model} wrote them."
        )


class ExamAccuracy:
    """Async reward function: share of right answers; None if a question got no usable answer."""

    __name__ = "exam_reward"

    def __init__(
        self,
        taker: ExamTaker,
        exams: Mapping[str, StoredExam],
        *,
        on_error: Callable[[FailedCall], None] | None = None,
        sink: Callable[[list[int]], object] | None = None,
    ) -> None:
        """
        Args:
            sink: called with the number of answered questions per response of a batch.
        """
        self.taker, self.exams, self._on_error, self._sink = taker, exams, on_error, sink
        self._calls: StartedCalls[tuple[float | None, int]] = StartedCalls()

    async def start(
        self,
        rows: Sequence[int],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        sample_id: Sequence[str],
        **columns: Any,
    ) -> None:
        """Start the exams of some rows of the next batch; see `adapters.trl.RubricReward.start`."""
        exams = zip(sample_id, map(completion_text, completions), strict=True)
        self._calls.start(self._take, dict(zip(rows, exams, strict=True)))

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], sample_id: Sequence[str], **columns: Any
    ) -> list[float | None]:
        captions = map(completion_text, completions)
        results = await self._calls.gather(self._take, list(zip(sample_id, captions, strict=True)))
        if self._sink is not None:
            self._sink([answers for _, answers in results])
        return [accuracy for accuracy, _ in results]

    async def _take(self, sample_id: str, caption: str) -> tuple[float | None, int]:
        """Return the accuracy of a caption and the number of answered questions."""
        if not has_words(caption):
            return 0.0, 0
        try:
            result = await self.taker.take(sample_id, caption, self.exams[sample_id])
        except ChatError as error:
            if self._on_error is not None:
                model = self.taker.client.endpoint.model
                self._on_error(FailedCall(sample_id, Response.of(caption), model, ("exam",), error))
            return None, 0
        return result.accuracy, len(result.answers)
