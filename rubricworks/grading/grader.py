"""A rubric on a response, by a judge model: the verdicts of RubiCap's reward (section 3.3).

A judge that fails leaves errors in its scorecard, never numbers: an outage must not train a policy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rubricworks.errors import UserError
from rubricworks.grading.prompts import Judgment, check_ids, judge_messages
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

Exposure = Literal["text", "image"]
"""What of the sample the judge sees: nothing but the rubric's words (RubiCap), or its image too."""
CallPer = Literal["response", "criterion"]
"""One call for all criteria of a response, or one each, as in the paper."""


class Grader:
    """Grades responses with one judge."""

    def __init__(
        self,
        judges: ChatClient | Sequence[ChatClient],
        *,
        exposure: Exposure = "text",
        call_per: CallPer = "response",
        on_error: Callable[[str, ChatError], None] | None = None,
    ) -> None:
        """
        Args:
            judges: the judge's client, or a sequence of exactly one.
            on_error: told the sample's id and the error of each call that failed, as for a dead-letter row.
        """
        clients = [judges] if isinstance(judges, ChatClient) else list(judges)
        if len(clients) != 1:
            raise UserError(f"{len(clients)} judges are given; a grader takes exactly one")
        if exposure not in ("text", "image"):
            raise UserError(f"exposure is {exposure!r}; choose text or image")
        if call_per not in ("response", "criterion"):
            raise UserError(f"call_per is {call_per!r}; choose response or criterion")
        self.judge = clients[0]
        self.exposure = exposure
        self.call_per = call_per
        self._on_error = on_error

    async def grade(self, sample: "Sample", response: str, rubric: Rubric) -> Scorecard:
        """One verdict per criterion, in the rubric's order. A failed call becomes errors, not an exception."""
        if self.call_per == "response":
            verdicts = await self._ask(sample, response, rubric.criteria)
        else:
            asked = [self._ask(sample, response, (criterion,)) for criterion in rubric.criteria]
            verdicts = tuple(verdict for (verdict,) in await asyncio.gather(*asked))
        return Scorecard(
            sample_id=sample.sample_id, response=response, judge=self.judge.endpoint.model, verdicts=verdicts
        )

    async def grade_many(self, rows: Iterable[tuple["Sample", str, Rubric]]) -> AsyncIterator[Scorecard]:
        """Scorecards in the order of the rows, which are read only as fast as they are graded."""
        window: deque[asyncio.Task[Scorecard]] = deque()
        limit = 2 * self.judge.endpoint.concurrency
        try:
            for sample, response, rubric in rows:
                window.append(asyncio.create_task(self.grade(sample, response, rubric)))
                if len(window) >= limit:
                    yield await window.popleft()
            while window:
                yield await window.popleft()
        finally:
            for task in window:
                task.cancel()
            await asyncio.gather(*window, return_exceptions=True)

    async def _ask(self, sample: "Sample", response: str, criteria: tuple[Criterion, ...]) -> tuple[Verdict, ...]:
        """The verdicts of one call."""
        shown = sample if self.exposure == "image" else None
        messages = judge_messages(response, criteria, sample=shown)
        try:
            reply = await self.judge.chat(messages, Judgment, check=lambda judgment: check_ids(judgment, len(criteria)))
        except ChatError as error:
            if self._on_error is not None:
                self._on_error(sample.sample_id, error)
            return tuple(
                Verdict(criterion=criterion.criterion, error=error.error_class, reasoning=error.message)
                for criterion in criteria
            )
        by_id = {verdict.id: verdict for verdict in reply.value.verdicts}
        return tuple(
            Verdict(criterion=criterion.criterion, credit=by_id[number].score, reasoning=by_id[number].reasoning)
            for number, criterion in enumerate(criteria, start=1)
        )
