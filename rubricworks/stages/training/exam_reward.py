"""CapRL's reward, a peer of other methods: share of exam questions answered right from the caption alone.

The exam writer sees the image; the exam taker the caption alone. A caption without words earns 0.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rubricworks.adapters.rows import completion_text
from rubricworks.evaluation.scorers.caption_prompts import StoredExam
from rubricworks.evaluation.scorers.caption_qa import ExamTaker
from rubricworks.grading import FailedCall
from rubricworks.grading.assertions.texts import has_words
from rubricworks.llm import ChatError
from rubricworks.rubrics import Response


class ExamReward:
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

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], sample_id: Sequence[str], **columns: Any
    ) -> list[float | None]:
        captions = [completion_text(completion) for completion in completions]
        results = await asyncio.gather(*map(self._take, sample_id, captions))
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
