"""CapRL's reward, the peer of BalCapRL: how many questions a text model answers right from the caption alone.

Whoever writes the exams sees the image; whoever takes them reads the caption. A caption without words answers nothing.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rubricworks.adapters.rows import completion_text
from rubricworks.evaluation.scorers.caption_prompts import Exam
from rubricworks.evaluation.scorers.caption_qa import ExamTaker
from rubricworks.grading import FailedCall
from rubricworks.grading.assertion_texts import has_words
from rubricworks.llm import ChatError


class ExamReward:
    """An async reward function: the share of right answers, None where a question could not be put."""

    __name__ = "exam_reward"

    def __init__(
        self,
        taker: ExamTaker,
        exams: Mapping[str, Exam],
        *,
        on_error: Callable[[FailedCall], None] | None = None,
        sink: Callable[[list[int]], object] | None = None,
    ) -> None:
        """
        Args:
            sink: called with the number of questions answered for each response of a batch.
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
        """Accuracy of a caption, and the number of questions answered."""
        if not has_words(caption):
            return 0.0, 0
        try:
            taken = await self.taker.take(sample_id, caption, self.exams[sample_id])
        except ChatError as error:
            if self._on_error is not None:
                model = self.taker.client.endpoint.model
                self._on_error(FailedCall(sample_id, caption, model, ("exam",), error))
            return None, 0
        return taken.accuracy, len(taken.answers)
