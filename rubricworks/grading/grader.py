"""A rubric on a response, by one judge model or several, and its scorecard.

A rubric without references is judged criterion by criterion, as RubiCap's reward does (section 3.3). One in which any
criterion has a reference is a checklist, executed as RLR³ does (section 4.2): one call, which judges fuzzy criteria and
extracts values for the verifiers. A judge that fails leaves errors in its scorecard, never numbers: an outage must not
train a policy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from rubricworks.errors import UserError
from rubricworks.grading.execution import execute
from rubricworks.grading.prompts import Judgment, check_ids, judge_messages
from rubricworks.grading.requests import AnyRequest, Exposure, exposed_request
from rubricworks.grading.scoring_answers import Scoring, check_scoring
from rubricworks.grading.scoring_prompts import scoring_messages
from rubricworks.grading.votes import Combine, combine_credits
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rubrics import Criterion, ErrorClass, Rubric, Scorecard, Verdict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

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
            exposure: what of the sample the judge sees; see `requests.Exposure`.
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
        """One verdict per criterion, in the rubric's order. A failed call becomes errors, not an exception.

        Raises:
            UserError: a checklist is to be graded one criterion per call, or an image is to be shown and there is none.
        """
        calls = self._calls(sample, response, rubric)
        answers = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        each = len(answers) // len(self.judges)
        by_judge = [
            [verdict for answer in answers[start : start + each] for verdict in answer.verdicts]
            for start in range(0, len(answers), each)
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

    def _calls(self, sample: "Sample", response: str, rubric: Rubric) -> list[Coroutine[Any, Any, _Answer]]:
        """All calls for one response, judge by judge."""
        if any(criterion.reference for criterion in rubric.criteria):
            if self.call_per == "criterion":
                raise UserError(
                    f"sample {sample.sample_id}: call_per is 'criterion', and its rubric is a checklist, which is "
                    "graded in one call; set call_per to 'response'"
                )
            request = exposed_request(sample, response, rubric, self.exposure)
            return [self._execute(judge, sample, response, rubric, request) for judge in self.judges]
        criteria = rubric.criteria
        asked = [criteria] if self.call_per == "response" else [(criterion,) for criterion in criteria]
        return [self._ask(judge, sample, response, some) for judge in self.judges for some in asked]

    async def _ask(
        self, judge: ChatClient, sample: "Sample", response: str, criteria: tuple[Criterion, ...]
    ) -> _Answer:
        """The verdicts of one call."""
        shown = sample if self.exposure == "image" else None
        messages = judge_messages(response, criteria, sample=shown)
        try:
            reply = await judge.chat(messages, Judgment, check=lambda judgment: check_ids(judgment, len(criteria)))
        except ChatError as error:
            return self._failed(judge, sample, response, criteria, error)
        scores = {score.id: score for score in reply.value.verdicts}
        verdicts = [
            Verdict(criterion=criterion.criterion, credit=scores[number].score, reasoning=scores[number].reasoning)
            for number, criterion in enumerate(criteria, start=1)
        ]
        return _Answer(tuple(verdicts), reply.raw)

    async def _execute(
        self, judge: ChatClient, sample: "Sample", response: str, rubric: Rubric, request: AnyRequest
    ) -> _Answer:
        """The verdicts of one call on a checklist. A target at fault is its criterion's error alone."""
        messages = scoring_messages(request)
        try:
            reply = await judge.chat(messages, Scoring, check=lambda scoring: check_scoring(scoring, request))
        except ChatError as error:
            return self._failed(judge, sample, response, rubric.criteria, error)
        verdicts = await execute(reply.value, rubric)
        for verdict in verdicts:
            if verdict.error is not None:
                self._report(judge, sample, response, (verdict.criterion,), _no_value(verdict, reply.raw))
        return _Answer(verdicts, reply.raw)

    def _failed(
        self,
        judge: ChatClient,
        sample: "Sample",
        response: str,
        criteria: tuple[Criterion, ...],
        error: ChatError,
    ) -> _Answer:
        titles = tuple(criterion.criterion for criterion in criteria)
        self._report(judge, sample, response, titles, error)
        failed = [Verdict(criterion=title, error=error.error_class, reasoning=error.message) for title in titles]
        return _Answer(tuple(failed), "")

    def _report(
        self, judge: ChatClient, sample: "Sample", response: str, titles: tuple[str, ...], error: ChatError
    ) -> None:
        if self._on_error is not None:
            self._on_error(FailedCall(sample.sample_id, response, judge.endpoint.model, titles, error))

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


def _no_value(verdict: Verdict, raw: str) -> ChatError:
    """The dead letter of a criterion whose call was good and whose verifier could not decide."""
    return ChatError(verdict.error or ErrorClass.UNVERIFIABLE, verdict.reasoning, raw, attempts=0)
