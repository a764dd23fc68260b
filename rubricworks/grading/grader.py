"""Grader: one or several judge models grade a response by its rubric into a scorecard.

A rubric without references is judged criterion by criterion, as in RubiCap's reward for a text (section 3.3) and in
RubricRL's for an image (section 3.2). A rubric in which any criterion has a reference is a checklist, executed on a
text as in RLR³ (section 4.2): one call judges fuzzy criteria and extracts values for the verifiers. A failed judge
gives errors in the scorecard, never numbers: an outage must not train a policy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from rubricworks.errors import UserError
from rubricworks.grading.answer_prompts import ANSWER_JUDGE_PROMPT_VERSION, answer_judge_messages
from rubricworks.grading.evaluation_events import emit_verdicts
from rubricworks.grading.execution import execute
from rubricworks.grading.images.checks import image_problem
from rubricworks.grading.images.prompts import ANSWERS, IMAGE_JUDGE_PROMPT_VERSION, Credits, image_judge_messages
from rubricworks.grading.images.text_criteria import TEXT_KEY, quoted_texts, text_verdict
from rubricworks.grading.images.text_reading import TextReader, mask_text
from rubricworks.grading.prompts import (
    JUDGE_PROMPT_VERSION,
    ContinuousScore,
    CriterionScore,
    Judgment,
    check_ids,
    judge_messages,
)
from rubricworks.grading.requests import AnyRequest, Exposure, request_with_exposure
from rubricworks.grading.scoring_answers import Scoring, check_scoring
from rubricworks.grading.scoring_prompts import SCORING_PROMPT_VERSION, scoring_messages
from rubricworks.grading.votes import Combine, combine_credits
from rubricworks.llm import ChatClient, ChatError, Reply, image_part
from rubricworks.llm.messages import Message
from rubricworks.rubrics import Criterion, ErrorClass, Response, Rubric, Scorecard, Verdict

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

GraderCredits = Literal["binary", "continuous", "logprob"]
"""Scale of an image's credits (`images.prompts.Credits`), or a judge's probability of 1."""
Confidence = Literal["logprob", "repeats"]
CallPer = Literal["response", "criterion"]
"""One call for all criteria of a response, or one per criterion, as in RubiCap's paper (Appendix B, Prompt 3)."""
Subject = Literal["caption", "answer"]
"""Kind of text to grade: a caption, judged only by its own words, or an answer, which the judge receives with its
prompt and the sample's reference answer. For either kind, a checklist's judge receives the question and no answer.
"""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A failed call of a judge, or a response that could not be shown to it: one dead letter for each criterion."""

    sample_id: str
    response: Response
    """A `str` is taken as a text."""
    judge: str
    """Name of the model."""
    criteria: tuple[str, ...]
    """Titles of the criteria."""
    error: ChatError

    def __post_init__(self) -> None:
        object.__setattr__(self, "response", Response.of(self.response))


_TEXT_PROMPT_VERSIONS: dict[Subject, str] = {"caption": JUDGE_PROMPT_VERSION, "answer": ANSWER_JUDGE_PROMPT_VERSION}
_MessagesOf = Callable[[tuple[Criterion, ...]], list[Message]]
"""Messages that ask for these criteria of one response."""


class _CallResult(NamedTuple):
    verdicts: tuple[Verdict, ...]
    raw: str


class _Draw(NamedTuple):
    """One draw of a judge's score."""

    credit: float
    reasoning: str
    probability: float | None
    """Probability of 1 against 0; None if it was not requested."""


class _Judged(NamedTuple):
    """Verdicts of all calls, and their raw answers."""

    verdicts: tuple[Verdict, ...]
    raw: tuple[str, ...]


class Grader:
    """Grader of responses, with one judge or several."""

    def __init__(
        self,
        judges: ChatClient | Sequence[ChatClient],
        *,
        exposure: Exposure = "text",
        subject: Subject = "caption",
        call_per: CallPer = "response",
        combine: Combine = "majority",
        credits: GraderCredits = "binary",
        confidence: Confidence | None = None,
        repeats: int = 1,
        seed: int = 0,
        text_reader: TextReader | None = None,
        mask_text: bool = False,
        on_error: Callable[[FailedCall], None] | None = None,
    ) -> None:
        """
        Args:
            judges: client of one judge or of several; each grades everything, and their credits are combined.
            exposure: parts of the sample that the judge sees; see `requests.Exposure`.
            subject: what a graded text is; see `Subject`.
            call_per: one call per response, or per criterion.
            combine: rule for combining the credits of several judges; see `votes.Combine`.
            credits: scale of the scores of an image, see `images.prompts.Credits`; texts are scored 0 or 1. With
                logprob a credit is the judge's probability of 1, from the log-probabilities of its tokens.
            confidence: source of each verdict's confidence, none by default: log-probabilities, or `repeats`.
            repeats: draws of each answer, with seeds from `seed` on; the most frequent score counts, of two that tie
                the lower. They differ only if the endpoint has a temperature.
            text_reader: reader of the text in an image, which decides the criteria about quoted text.
            mask_text: blank the text in an image before the judge sees it, but for what the criteria quote.
            on_error: callback for every failed call, for dead letters.
        """
        self.judges = (judges,) if isinstance(judges, ChatClient) else tuple(judges)
        if not self.judges:
            raise UserError("no judge is given; a grader takes at least one")
        for name, value, choices in (
            ("exposure", exposure, Exposure),
            ("subject", subject, Subject),
            ("call_per", call_per, CallPer),
            ("combine", combine, Combine),
            ("credits", credits, GraderCredits),
            ("confidence", confidence or "logprob", Confidence),
        ):
            if value not in get_args(choices):
                raise UserError(f"{name} is {value!r}; choose {' or '.join(get_args(choices))}")
        if credits in ("continuous", "logprob") and combine == "majority" and len(self.judges) > 1:
            raise UserError(f"{credits} credits have no majority; set combine to median or any")
        if repeats < 1 or (confidence == "repeats" and repeats < 2):
            raise UserError(f"repeats is {repeats}; draw at least {2 if confidence == 'repeats' else 1}")
        if repeats > 1 and credits != "binary":
            raise UserError(f"{credits} credits are not repeated; leave repeats at 1")
        if mask_text and text_reader is None:
            raise UserError("mask_text needs a text_reader, which finds the text to blank")
        self.text_reader = text_reader
        self.mask_text = mask_text
        self.exposure = exposure
        self.subject = subject
        self.credits: Credits = "binary" if credits == "logprob" else credits
        self._credits_by_logprob = credits == "logprob"
        self.confidence: Confidence | None = "logprob" if self._credits_by_logprob else confidence
        self._seeds = range(seed, seed + repeats)
        self.call_per = call_per
        self.combine: Combine = combine
        names = [judge.endpoint.rater for judge in self.judges]
        self._name = " + ".join(names if text_reader is None else [*names, text_reader.name])
        self._on_error = on_error

    async def grade(self, sample: "Sample", response: str | Response, rubric: Rubric) -> Scorecard:
        """Give one verdict per criterion, in the rubric's order. A failed call gives errors, not an exception.

        An image is encoded once for all calls. One that no decoder reads is shown to no judge: its verdicts are errors,
        and so are those of a response to a sample whose image is to be shown and is neither PNG nor JPEG. If the
        process exports OpenTelemetry events, each verdict becomes an event (`evaluation_events`).

        Raises:
            UserError: `call_per` is criterion for a checklist, or `exposure` is image for a sample without one, or the
                response is an image, and the rubric is a checklist or the image's bytes are missing.
        """
        card = await self.judge_response(sample, response, rubric)
        emit_verdicts(card)
        return card

    async def judge_response(self, sample: "Sample", response: str | Response, rubric: Rubric) -> Scorecard:
        """Grade as `grade` does, without an event: for a grader whose verdicts another may replace."""
        response = Response.of(response)
        if self.exposure == "image" and (fault := _fault_of_images(sample)):
            return self._unreadable(sample, response, rubric, f"the sample has no readable image: {fault}")
        if response.is_image and not _is_checklist(rubric) and (problem := await image_problem(sample, response)):
            return self._unreadable(sample, response, rubric, f"the response is no readable image: {problem}")
        if response.is_image and self.text_reader is not None and not _is_checklist(rubric):
            return await self._grade_with_reader(self.text_reader, sample, response, rubric)
        verdicts, raw = await self._judge_all(self._calls(sample, response, rubric))
        return self._scorecard(sample, response, verdicts, raw)

    def _scorecard(
        self, sample: "Sample", response: Response, verdicts: tuple[Verdict, ...], raw: tuple[str, ...] = ()
    ) -> Scorecard:
        return Scorecard(sample_id=sample.sample_id, response=response, judge=self._name, verdicts=verdicts, raw=raw)

    async def _judge_all(self, calls: list[Coroutine[Any, Any, _CallResult]]) -> _Judged:
        """Verdicts of all judges' calls, which are of the same criteria for each judge in turn."""
        if not calls:
            return _Judged((), ())
        results = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        calls_per_judge = len(results) // len(self.judges)
        by_judge = [
            [verdict for result in results[start : start + calls_per_judge] for verdict in result.verdicts]
            for start in range(0, len(results), calls_per_judge)
        ]
        if len(by_judge) == 1:
            verdicts = tuple(by_judge[0])
        else:
            verdicts = tuple(self._combine_votes(votes) for votes in zip(*by_judge, strict=True))
        return _Judged(verdicts, tuple(result.raw for result in results))

    async def _grade_with_reader(
        self, reader: TextReader, sample: "Sample", response: Response, rubric: Rubric
    ) -> Scorecard:
        """Decide the criteria about quoted text by reading, and the others by the judge, on a masked image if asked.

        Criteria about text that the reader cannot decide are judged on the image as it is. If the reader fails, its
        criteria have errors, and with a mask all have: an image that could not be masked is not shown.
        """
        quoted = {criterion.criterion: texts for criterion in rubric.criteria if (texts := quoted_texts(criterion))}
        decided: dict[str, Verdict] = {}
        try:
            regions = await reader.read(response)
        except ChatError as error:
            titles = tuple(
                criterion.criterion for criterion in rubric.criteria if self.mask_text or criterion.criterion in quoted
            )
            if titles:
                self._report_failure(reader.name, sample, response, titles, error)
            decided = {
                title: Verdict(criterion=title, error=error.error_class, reasoning=error.message) for title in titles
            }
            regions = ()
        else:
            for criterion in rubric.criteria:
                if criterion.criterion in quoted:
                    decided[criterion.criterion] = text_verdict(criterion, regions, self.credits)
        left = [criterion for criterion in rubric.criteria if criterion.criterion not in decided]
        views = [(response, left)]
        if self.mask_text and regions and response.image is not None:
            asked = [text for texts in quoted.values() for text in texts]
            masked = await asyncio.to_thread(partial(mask_text, response.image, regions, asked=asked))
            about_text = [criterion for criterion in left if criterion.key == TEXT_KEY]
            others = [criterion for criterion in left if criterion.key != TEXT_KEY]
            views = [(Response.of_image(masked), others), (response, about_text)]
        calls = [
            self._judge(judge, sample, response, batch, messages_of)
            for judge in self.judges
            for view, criteria in views
            if criteria
            for messages_of in [self._messages_of(sample, view)]
            for batch in self._batches(tuple(criteria))
        ]
        judged, raw = await self._judge_all(calls)
        by_title = decided | {verdict.criterion: verdict for verdict in judged}
        verdicts = tuple(by_title[criterion.criterion] for criterion in rubric.criteria)
        return self._scorecard(sample, response, verdicts, raw)

    async def grade_many(self, rows: Iterable[tuple["Sample", str | Response, Rubric]]) -> AsyncIterator[Scorecard]:
        """Grade rows of (sample, response, rubric), in order; rows are consumed only as fast as they are graded."""
        window: deque[tuple[asyncio.Task[Scorecard], int]] = deque()
        calls, max_calls = 0, 2 * max(judge.endpoint.concurrency for judge in self.judges)
        try:
            for sample, response, rubric in rows:
                count = 1 if self.call_per == "response" else len(rubric.criteria)
                window.append((asyncio.create_task(self.grade(sample, response, rubric)), count))
                calls += count
                while calls >= max_calls:
                    task, count = window.popleft()
                    yield await task
                    calls -= count
            while window:
                task, _ = window.popleft()
                yield await task
        finally:
            pending = [task for task, _ in window]
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    def _calls(self, sample: "Sample", response: Response, rubric: Rubric) -> list[Coroutine[Any, Any, _CallResult]]:
        """Coroutines of all calls for one response, judge by judge."""
        if _is_checklist(rubric):
            if self.call_per == "criterion":
                raise UserError(
                    f"sample {sample.label}: call_per is 'criterion', and its rubric is a checklist, which is "
                    "graded in one call; set call_per to 'response'"
                )
            request = request_with_exposure(sample, response, rubric, self.exposure)
            return [self._score_checklist(judge, sample, response, rubric, request) for judge in self.judges]
        criteria, messages_of = rubric.criteria, self._messages_of(sample, response)
        batches = self._batches(criteria)
        return [self._judge(judge, sample, response, batch, messages_of) for judge in self.judges for batch in batches]

    def _batches(self, criteria: tuple[Criterion, ...]) -> list[tuple[Criterion, ...]]:
        """Criteria of each call."""
        return [criteria] if self.call_per == "response" else [(criterion,) for criterion in criteria]

    def _messages_of(self, sample: "Sample", response: Response) -> _MessagesOf:
        shows_sample = self.exposure == "image"
        if response.image is None:
            text = response.require_text("the judge")
            if self.subject == "answer":
                return partial(answer_judge_messages, text, sample=sample, shows_image=shows_sample)
            return partial(judge_messages, text, sample=sample if shows_sample else None)
        images = sample.require_images("exposure is 'image'") if shows_sample else ()
        part, parts = image_part(response.image), [image_part(image) for image in images]
        return partial(image_judge_messages, part, prompt=sample.prompt, prompt_images=parts, credits=self.credits)

    async def _judge(
        self,
        judge: ChatClient,
        sample: "Sample",
        response: Response,
        criteria: tuple[Criterion, ...],
        messages_of: _MessagesOf,
    ) -> _CallResult:
        """Judge criteria without references in one call."""
        judge.note_prompt(IMAGE_JUDGE_PROMPT_VERSION if response.is_image else _TEXT_PROMPT_VERSIONS[self.subject])
        messages = messages_of(criteria)
        answer = ANSWERS[self.credits] if response.is_image else Judgment
        check = partial(check_ids, count=len(criteria))
        field = "score" if self.confidence == "logprob" else ""
        draws = [judge.chat(messages, answer, seed, check=check, probabilities_of=field) for seed in self._seeds]
        try:
            replies: list[Reply[Any]] = [await draws[0]] if len(draws) == 1 else await asyncio.gather(*draws)
            if field:
                _require_probabilities(judge, replies)
        except ChatError as error:
            return self._failure(judge, sample, response, criteria, error)
        if not field and len(replies) == 1:
            scores = {score.id: score for score in replies[0].value.verdicts}
            verdicts = [
                Verdict(criterion=criterion.criterion, credit=scores[number].score, reasoning=scores[number].reasoning)
                for number, criterion in enumerate(criteria, start=1)
            ]
            return _CallResult(tuple(verdicts), replies[0].raw)
        drawn = [_draws(reply.value.verdicts, reply.probabilities) for reply in replies]
        verdicts = [
            self._verdict(criterion.criterion, [draw[number] for draw in drawn])
            for number, criterion in enumerate(criteria, start=1)
        ]
        return _CallResult(tuple(verdicts), replies[0].raw)

    def _verdict(self, title: str, draws: Sequence["_Draw"]) -> Verdict:
        """Verdict of one judge on one criterion, from the draws of its answer."""
        credit = draws[0].credit if len(draws) == 1 else combine_credits([draw.credit for draw in draws], "majority")
        chosen = next(draw for draw in draws if draw.credit == credit)
        confidence = None
        if self.confidence == "repeats":
            confidence = sum(draw.credit == credit for draw in draws) / len(draws)
        elif chosen.probability is not None:
            confidence = max(chosen.probability, 1 - chosen.probability)
            credit = chosen.probability if self._credits_by_logprob else credit
        votes = tuple(draw.credit for draw in draws) if len(draws) > 1 else ()
        return Verdict(criterion=title, credit=credit, reasoning=chosen.reasoning, confidence=confidence, votes=votes)

    async def _score_checklist(
        self, judge: ChatClient, sample: "Sample", response: Response, rubric: Rubric, request: AnyRequest
    ) -> _CallResult:
        """Score a checklist in one call. A faulty target is an error of its criterion only."""
        judge.note_prompt(SCORING_PROMPT_VERSION)
        messages = scoring_messages(request)
        try:
            reply = await judge.chat(messages, Scoring, check=lambda scoring: check_scoring(scoring, request))
        except ChatError as error:
            return self._failure(judge, sample, response, rubric.criteria, error)
        verdicts = await execute(reply.value, rubric)
        for verdict in verdicts:
            if verdict.error is not None:
                failure = _verifier_failure(verdict, reply.raw)
                self._report_failure(judge.endpoint.model, sample, response, (verdict.criterion,), failure)
        return _CallResult(verdicts, reply.raw)

    def _failure(
        self,
        judge: ChatClient,
        sample: "Sample",
        response: Response,
        criteria: tuple[Criterion, ...],
        error: ChatError,
    ) -> _CallResult:
        titles = tuple(criterion.criterion for criterion in criteria)
        self._report_failure(judge.endpoint.model, sample, response, titles, error)
        failed = [Verdict(criterion=title, error=error.error_class, reasoning=error.message) for title in titles]
        return _CallResult(tuple(failed), "")

    def _unreadable(self, sample: "Sample", response: Response, rubric: Rubric, problem: str) -> Scorecard:
        """Scorecard of a response that is shown to no judge, every verdict an error."""
        titles = tuple(criterion.criterion for criterion in rubric.criteria)
        error = ChatError(ErrorClass.UNREADABLE, problem, attempts=0)
        self._report_failure(self._name, sample, response, titles, error)
        verdicts = tuple(Verdict(criterion=title, error=error.error_class, reasoning=error.message) for title in titles)
        return Scorecard(sample_id=sample.sample_id, response=response, judge=self._name, verdicts=verdicts)

    def _report_failure(
        self, judge: str, sample: "Sample", response: Response, titles: tuple[str, ...], error: ChatError
    ) -> None:
        if self._on_error is not None:
            self._on_error(FailedCall(sample.sample_id, response, judge, titles, error))

    def _combine_votes(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Combine several judges' verdicts on a criterion, with the reasoning of one that agrees with the result."""
        votes = tuple(verdict.credit for verdict in verdicts)
        credit = combine_credits(votes, self.combine)
        if credit is not None:
            representative = next(verdict for verdict in verdicts if verdict.credit == credit)
            return representative.model_copy(update={"votes": votes})
        failed = [verdict for verdict in verdicts if verdict.error is not None]
        reasoning = f"{len(failed)} of {len(votes)} judges failed, and the others do not decide: {failed[0].reasoning}"
        return Verdict(criterion=failed[0].criterion, error=failed[0].error, reasoning=reasoning, votes=votes)


def _require_probabilities(judge: ChatClient, replies: Sequence[Reply[Any]]) -> None:
    """Raise ChatError unless each score of each answer has a probability."""
    for reply in replies:
        scores, known = len(reply.value.verdicts), len(reply.probabilities)
        if known < scores:
            message = f"{judge.endpoint.label}: its log-probabilities tell of {known} scores, and it gave {scores}"
            raise ChatError(ErrorClass.MALFORMED, message, reply.raw)


def _draws(scores: Sequence[CriterionScore | ContinuousScore], probabilities: Sequence[float]) -> dict[int, _Draw]:
    """Draws of an answer by id. A thought before the answer may hold scores, too: its own are the last."""
    known: Sequence[float | None] = probabilities[-len(scores) :] or [None] * len(scores)  # none were asked for
    return {
        score.id: _Draw(score.score, score.reasoning, probability)
        for score, probability in zip(scores, known, strict=True)
    }


def _fault_of_images(sample: "Sample") -> str:
    """Reason why an image of the sample cannot be shown; empty if there is no such image."""
    from rubricworks.data.images import image_fault

    return next((fault for image in sample.images if (fault := image_fault(image))), "")


def _is_checklist(rubric: Rubric) -> bool:
    return any(criterion.reference for criterion in rubric.criteria)


def _verifier_failure(verdict: Verdict, raw: str) -> ChatError:
    """Error of a criterion whose call succeeded but whose verifier could not decide."""
    return ChatError(verdict.error or ErrorClass.UNVERIFIABLE, verdict.reasoning, raw, attempts=0)
