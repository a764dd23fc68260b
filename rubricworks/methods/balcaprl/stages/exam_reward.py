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
        self, taker: ExamTaker, exams: Mapping[str, Exam], *, on_error: Callable[[FailedCall], None] | None = None
    ) -> None:
        self.taker, self.exams, self._on_error = taker, exams, on_error
        self.answered = 0
        """Questions of the last batch."""

    async def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], sample_id: Sequence[str], **columns: Any
    ) -> list[float | None]:
        self.answered = 0
        captions = [completion_text(completion) for completion in completions]
        return await asyncio.gather(*map(self._accuracy, sample_id, captions))

    async def _accuracy(self, sample_id: str, caption: str) -> float | None:
        if not has_words(caption):
            return 0.0
        try:
            taken = await self.taker.take(sample_id, caption, self.exams[sample_id])
        except ChatError as error:
            if self._on_error is not None:
                model = self.taker.client.endpoint.model
                self._on_error(FailedCall(sample_id, caption, model, ("exam",), error))
            return None
        self.answered += len(taken.answers)
        return taken.accuracy
