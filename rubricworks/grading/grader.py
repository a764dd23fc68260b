"""A rubric on a response, by one judge model or several: the verdicts of RubiCap's reward (section 3.3).

A judge that fails leaves errors in its scorecard, never numbers: an outage must not train a policy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from rubricworks.errors import UserError
from rubricworks.grading.prompts import Judgment, check_ids, judge_messages
from rubricworks.grading.votes import Combine, combine_credits
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import Criterion, Rubric, Scorecard, Verdict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

Exposure = Literal["text", "image"]
"""What of the sample the judge sees: nothing but the rubric's words (RubiCap), or its image too."""
CallPer = Literal["response", "criterion"]
"""One call for all criteria of a response, or one each, as in the paper."""


class FailedCall(NamedTuple):
    """A judge's call that brought no verdicts: one dead letter for each of its criteria."""

    sample_id: str
    response: str
    judge: str
    """The model."""
    criteria: tuple[str, ...]
    """Their titles."""
    error: ChatError


class _Answer(NamedTuple):
    verdicts: tuple[Verdict, ...]
    raw: str


class Grader:
    """Grades responses with one judge or several."""

    def __init__(
        self,
        judges: ChatClient | Sequence[ChatClient],
        *,
        exposure: Exposure = "text",
        call_per: CallPer = "response",
        combine: Combine = "majority",
        on_error: Callable[[FailedCall], None] | None = None,
    ) -> None:
        """
        Args:
            judges: the judge's client, or several: each grades everything, and their credits are combined.
            combine: how; see `votes.Combine`.
            on_error: told of each call that failed, as for dead letters.
        """
        self.judges = (judges,) if isinstance(judges, ChatClient) else tuple(judges)
        if not self.judges:
            raise UserError("no judge is given; a grader takes at least one")
        for name, value, choices in (
            ("exposure", exposure, Exposure),
            ("call_per", call_per, CallPer),
            ("combine", combine, Combine),
        ):
            if value not in get_args(choices):
                raise UserError(f"{name} is {value!r}; choose {' or '.join(get_args(choices))}")
        self.exposure = exposure
        self.call_per = call_per
        self.combine: Combine = combine
        self._name = " + ".join(judge.endpoint.model for judge in self.judges)
        self._on_error = on_error

    async def grade(self, sample: "Sample", response: str, rubric: Rubric) -> Scorecard:
        """One verdict per criterion, in the rubric's order. A failed call becomes errors, not an exception."""
        criteria = rubric.criteria
        asked = [criteria] if self.call_per == "response" else [(criterion,) for criterion in criteria]
        calls = [self._ask(judge, sample, response, some) for judge in self.judges for some in asked]
        answers = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        by_judge = [
            [verdict for answer in answers[start : start + len(asked)] for verdict in answer.verdicts]
            for start in range(0, len(answers), len(asked))
        ]
        if len(by_judge) == 1:
            verdicts = tuple(by_judge[0])
        else:
            verdicts = tuple(self._together(votes) for votes in zip(*by_judge, strict=True))
        return Scorecard(
            sample_id=sample.sample_id,
            response=response,
            judge=self._name,
            verdicts=verdicts,
            raw=tuple(answer.raw for answer in answers),
        )

    async def grade_many(self, rows: Iterable[tuple["Sample", str, Rubric]]) -> AsyncIterator[Scorecard]:
        """Scorecards in the order of the rows, which are read only as fast as they are graded."""
        window: deque[tuple[asyncio.Task[Scorecard], int]] = deque()
        calls, most = 0, 2 * max(judge.endpoint.concurrency for judge in self.judges)
        try:
            for sample, response, rubric in rows:
                count = 1 if self.call_per == "response" else len(rubric.criteria)
                window.append((asyncio.create_task(self.grade(sample, response, rubric)), count))
                calls += count
                while calls >= most:
                    task, count = window.popleft()
                    yield await task
                    calls -= count
            while window:
                task, _ = window.popleft()
                yield await task
        finally:
            left = [task for task, _ in window]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _ask(
        self, judge: ChatClient, sample: "Sample", response: str, criteria: tuple[Criterion, ...]
    ) -> _Answer:
        """The verdicts of one call."""
        shown = sample if self.exposure == "image" else None
        messages = judge_messages(response, criteria, sample=shown)
        try:
            reply = await judge.chat(messages, Judgment, check=lambda judgment: check_ids(judgment, len(criteria)))
        except ChatError as error:
            if self._on_error is not None:
                titles = tuple(criterion.criterion for criterion in criteria)
                self._on_error(FailedCall(sample.sample_id, response, judge.endpoint.model, titles, error))
            failed = tuple(
                Verdict(criterion=criterion.criterion, error=error.error_class, reasoning=error.message)
                for criterion in criteria
            )
            return _Answer(failed, "")
        scores = {score.id: score for score in reply.value.verdicts}
        verdicts = [
            Verdict(criterion=criterion.criterion, credit=scores[number].score, reasoning=scores[number].reasoning)
            for number, criterion in enumerate(criteria, start=1)
        ]
        return _Answer(tuple(verdicts), reply.raw)

    def _together(self, verdicts: Sequence[Verdict]) -> Verdict:
        """One verdict of several judges' on a criterion, with the reasons of one that agrees."""
        votes = tuple(verdict.credit for verdict in verdicts)
        credit = combine_credits(votes, self.combine)
        if credit is not None:
            spokesman = next(verdict for verdict in verdicts if verdict.credit == credit)
            return spokesman.model_copy(update={"votes": votes})
        failed = [verdict for verdict in verdicts if verdict.error is not None]
        reasoning = f"{len(failed)} of {len(votes)} judges failed, and the others do not decide: {failed[0].reasoning}"
        return Verdict(criterion=failed[0].criterion, error=failed[0].error, reasoning=reasoning, votes=votes)
