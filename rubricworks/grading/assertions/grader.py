"""Grading of a caption against its reference, by assertions, into three rewards (BalCapRL, section 2.1).

One call sees image, caption and reference. With a verifier there are two calls: the judge decomposes, matches and rates
the texts and never sees the image; the verifier sees the image and the assertions, never the captions. A failed call
gives an error, never numbers: all three rewards are present, or none.
"""

from collections.abc import Callable
from itertools import compress
from typing import NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from rubricworks.errors import UserError
from rubricworks.grading.assertions.answers import (
    Decomposition,
    Verification,
    add_verification,
    check_lists,
    check_verification,
    filter_assertions,
    texts_of,
)
from rubricworks.grading.assertions.prompts import (
    ASSERTION_PROMPT_VERSION,
    Pointability,
    assertion_messages,
    decompose_messages,
    verify_messages,
)
from rubricworks.grading.assertions.texts import MIN_OVERLAP, has_words, text_states
from rubricworks.grading.grader import FailedCall
from rubricworks.llm import ChatClient, ChatError
from rubricworks.rewards import CaptionScores, caption_scores
from rubricworks.rubrics import CaptionAssertions, ErrorClass, Response

JUDGE_CALL, VERIFIER_CALL = "assertions", "verification"
"""Criterion of a dead letter, which identifies the failed call."""


class GradedCaption(BaseModel):
    """Result of grading one caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    caption: str
    reference: str
    judge: str
    """Model name; judge and verifier are joined by ` + `."""
    assertions: CaptionAssertions | None = None
    """Assertions of caption and reference; None if not judged or if the caption has no words."""
    dropped: tuple[str, ...] = ()
    """Assertions that the judge listed but the caption does not make; they are ignored."""
    dropped_of_reference: tuple[str, ...] = ()
    """Assertions that the judge listed but the reference does not make."""
    error: ErrorClass | None = None
    message: str = ""
    """Message of the error."""

    @model_validator(mode="after")
    def _judged_or_error(self) -> Self:
        if self.assertions is not None and self.error is not None:
            raise ValueError(f"sample {self.sample_id}: give either assertions or an error")
        if self.assertions is None and self.error is None and has_words(self.caption):
            raise ValueError(f"sample {self.sample_id}: the caption has words; give its assertions or an error")
        return self

    @property
    def scores(self) -> CaptionScores | None:
        """The three rewards, or None if the caption could not be judged.

        A caption without words gets 0 for each: it is the policy's failure, not the judge's.
        """
        if self.error is not None:
            return None
        if self.assertions is None:
            return CaptionScores(0.0, 0.0, 0.0)
        scores = caption_scores(self.assertions)
        return None if scores.precision is None or scores.recall is None else scores


class _CaptionTask(NamedTuple):
    """One caption to grade."""

    sample_id: str
    image: bytes
    caption: str
    reference: str
    min_overlap: float

    def check(self, answer: CaptionAssertions | Decomposition) -> None:
        check_lists(answer, self.caption, self.reference, self.min_overlap)


class AssertionGrader:
    """Grader of captions, with one judge, or with a judge for the texts and a verifier for the image."""

    def __init__(
        self,
        judge: ChatClient,
        *,
        verifier: ChatClient | None = None,
        pointability: Pointability = "strict",
        min_overlap: float = MIN_OVERLAP,
        on_error: Callable[[FailedCall], None] | None = None,
    ) -> None:
        """
        Args:
            judge: client of the judge, which sees the image unless there is a verifier.
            verifier: client of a model that sees image and assertions, and decides which are true.
            pointability: second condition of an assertion; see `assertions.prompts.Pointability`.
            min_overlap: share of an assertion's content words that its text must contain, or else the assertion is
                dropped; see `assertions.texts`. The paper drops none: 0.
            on_error: callback for every failed call, for dead letters.
        """
        if pointability not in get_args(Pointability):
            raise UserError(f"pointability is {pointability!r}; choose {' or '.join(get_args(Pointability))}")
        if not 0 <= min_overlap <= 1:
            raise UserError(f"min_overlap is {min_overlap}; it is a share of words, from 0 to 1")
        self.judge = judge
        self.verifier = verifier
        self.pointability: Pointability = pointability
        self.min_overlap = min_overlap
        self._name = " + ".join(client.endpoint.model for client in (judge, verifier) if client is not None)
        self._on_error = on_error

    async def grade(self, sample_id: str, image: bytes, caption: str, reference: str) -> GradedCaption:
        """Grade one caption. A failed call gives an error, not an exception; a caption without words needs no call.

        So does an image that is neither PNG nor JPEG.

        Raises:
            UserError: the reference has no words, or the image is not bytes.
        """
        from rubricworks.data.images import image_fault

        if not has_words(reference):
            raise UserError(
                f"sample {sample_id}: the reference caption has no words, so there is nothing to cover and no length "
                "to compare with; give the sample a reference, or leave it out"
            )
        if not isinstance(image, bytes):
            raise UserError(f"sample {sample_id}: the image is {type(image).__name__}; give the bytes of a PNG or JPEG")
        task = _CaptionTask(sample_id, image, caption, reference, self.min_overlap)
        if fault := image_fault(image):
            unreadable = ChatError(ErrorClass.UNREADABLE, f"the sample has no readable image: {fault}", attempts=0)
            return self._failure(
                task, self.verifier or self.judge, VERIFIER_CALL if self.verifier else JUDGE_CALL, unreadable
            )
        if not has_words(caption):
            return self._success(task)
        for client in (self.judge, self.verifier or self.judge):
            client.note_prompt(ASSERTION_PROMPT_VERSION)
        return await (
            self._grade_in_one_call(task) if self.verifier is None else self._grade_in_two_calls(task, self.verifier)
        )

    async def _grade_in_one_call(self, task: _CaptionTask) -> GradedCaption:
        messages = assertion_messages(task.image, task.caption, task.reference, self.pointability)
        try:
            reply = await self.judge.chat(messages, CaptionAssertions, check=task.check)
        except ChatError as error:
            return self._failure(task, self.judge, JUDGE_CALL, error)
        return self._success(task, reply.value)

    async def _grade_in_two_calls(self, task: _CaptionTask, verifier: ChatClient) -> GradedCaption:
        messages = decompose_messages(task.caption, task.reference)
        try:
            decomposition = (await self.judge.chat(messages, Decomposition, check=task.check)).value
        except ChatError as error:
            return self._failure(task, self.judge, JUDGE_CALL, error)
        listed, _ = texts_of(decomposition)
        stated = text_states(task.caption, listed, self.min_overlap)
        texts = list(compress(listed, stated))
        messages = verify_messages(task.image, texts, self.pointability)
        try:
            reply = await verifier.chat(
                messages, Verification, check=lambda verification: check_verification(verification, texts)
            )
        except ChatError as error:
            return self._failure(task, verifier, VERIFIER_CALL, error)
        marks = iter(assertion.is_verified for assertion in reply.value.assertions)
        return self._success(task, add_verification(decomposition, [is_stated and next(marks) for is_stated in stated]))

    def _success(self, task: _CaptionTask, answer: CaptionAssertions | None = None) -> GradedCaption:
        """Build the result, without the assertions that caption or reference do not make."""
        dropped: tuple[str, ...] = ()
        dropped_of_reference: tuple[str, ...] = ()
        if answer is not None:
            answer, dropped, dropped_of_reference = filter_assertions(
                answer, task.caption, task.reference, self.min_overlap
            )
        return GradedCaption(
            sample_id=task.sample_id,
            caption=task.caption,
            reference=task.reference,
            judge=self._name,
            assertions=answer,
            dropped=dropped,
            dropped_of_reference=dropped_of_reference,
        )

    def _failure(self, task: _CaptionTask, client: ChatClient, call: str, error: ChatError) -> GradedCaption:
        if self._on_error is not None:
            self._on_error(FailedCall(task.sample_id, Response.of(task.caption), client.endpoint.model, (call,), error))
        return GradedCaption(
            sample_id=task.sample_id,
            caption=task.caption,
            reference=task.reference,
            judge=self._name,
            error=error.error_class,
            message=error.message,
        )
