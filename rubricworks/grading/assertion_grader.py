"""A caption beside its reference becomes assertions, and those three rewards (BalCapRL, section 2.1).

One call sees image, caption and reference. With a verifier two calls share the work: the judge takes the texts apart,
matches and rates them and never sees the image; the verifier sees the image and the assertions, never the captions. A
model that fails leaves an error, never numbers, and all three rewards are there or none is.
"""

from collections.abc import Callable
from itertools import compress
from typing import NamedTuple, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator

from rubricworks.errors import UserError
from rubricworks.grading.assertion_answers import (
    Decomposition,
    Verification,
    check_lists,
    check_verification,
    own_assertions,
    texts_of,
    with_marks,
)
from rubricworks.grading.assertion_prompts import (
    Pointability,
    assertion_messages,
    decompose_messages,
    verify_messages,
)
from rubricworks.grading.assertion_texts import has_words, made_in
from rubricworks.grading.grader import FailedCall
from rubricworks.llm import ChatClient, ChatError
from rubricworks.llm.messages import image_part
from rubricworks.rewards import CaptionScores, caption_scores
from rubricworks.rubrics import CaptionAssertions, ErrorClass

JUDGING, VERIFYING = "assertions", "verification"
"""What a dead letter names as its criterion: which of the two calls failed."""


class GradedCaption(BaseModel):
    """What is known of one caption after grading."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    caption: str
    reference: str
    judge: str
    """The model; with a verifier both, joined by ` + `."""
    assertions: CaptionAssertions | None = None
    """Those that caption and reference make; None: not judged, or the caption has no words."""
    dropped: tuple[str, ...] = ()
    """Assertions that the judge listed of the caption, and that the caption does not make; they count for nothing."""
    dropped_of_reference: tuple[str, ...] = ()
    """The same of the reference."""
    error: ErrorClass | None = None
    message: str = ""
    """The error's."""

    @model_validator(mode="after")
    def _judged_or_error(self) -> Self:
        if self.assertions is not None and self.error is not None:
            raise ValueError(f"sample {self.sample_id}: give either assertions or an error")
        if self.assertions is None and self.error is None and has_words(self.caption):
            raise ValueError(f"sample {self.sample_id}: the caption has words; give its assertions or an error")
        return self

    @property
    def scores(self) -> CaptionScores | None:
        """The three rewards; None: could not be judged.

        A caption without words earns 0 of each: that is the policy's fault, not the judge's.
        """
        if self.error is not None:
            return None
        if self.assertions is None:
            return CaptionScores(0.0, 0.0, 0.0)
        scores = caption_scores(self.assertions)
        return None if scores.precision is None or scores.recall is None else scores


class _Asked(NamedTuple):
    """One caption to grade."""

    sample_id: str
    image: bytes
    caption: str
    reference: str

    def check(self, answer: CaptionAssertions | Decomposition) -> None:
        check_lists(answer, self.caption, self.reference)


class AssertionGrader:
    """Grades captions with one judge, or with a judge that reads and a verifier that looks."""

    def __init__(
        self,
        judge: ChatClient,
        *,
        verifier: ChatClient | None = None,
        pointability: Pointability = "strict",
        on_error: Callable[[FailedCall], None] | None = None,
    ) -> None:
        """
        Args:
            judge: sees the image unless there is a verifier.
            verifier: sees image and assertions, and decides which of them hold.
            pointability: what an assertion must pass beside being true; see `assertion_prompts.Pointability`.
            on_error: told of each call that failed, as for dead letters.
        """
        if pointability not in get_args(Pointability):
            raise UserError(f"pointability is {pointability!r}; choose {' or '.join(get_args(Pointability))}")
        self.judge = judge
        self.verifier = verifier
        self.pointability: Pointability = pointability
        self._name = " + ".join(client.endpoint.model for client in (judge, verifier) if client is not None)
        self._on_error = on_error

    async def grade(self, sample_id: str, image: bytes, caption: str, reference: str) -> GradedCaption:
        """One caption. A call that fails becomes an error, not an exception; a caption without words takes no call.

        Raises:
            UserError: the reference has no words, or the image is neither PNG nor JPEG.
        """
        if not has_words(reference):
            raise UserError(
                f"sample {sample_id}: the reference caption has no words, so there is nothing to cover and no length "
                "to compare with; give the sample a reference, or leave it out"
            )
        try:
            image_part(image)
        except ValueError as error:
            raise UserError(f"sample {sample_id}: {error}") from None
        asked = _Asked(sample_id, image, caption, reference)
        if not has_words(caption):
            return self._graded(asked)
        return await (self._at_once(asked) if self.verifier is None else self._apart(asked, self.verifier))

    async def _at_once(self, asked: _Asked) -> GradedCaption:
        messages = assertion_messages(asked.image, asked.caption, asked.reference, self.pointability)
        try:
            reply = await self.judge.chat(messages, CaptionAssertions, check=asked.check)
        except ChatError as error:
            return self._failed(asked, self.judge, JUDGING, error)
        return self._graded(asked, reply.value)

    async def _apart(self, asked: _Asked, verifier: ChatClient) -> GradedCaption:
        messages = decompose_messages(asked.caption, asked.reference)
        try:
            read = (await self.judge.chat(messages, Decomposition, check=asked.check)).value
        except ChatError as error:
            return self._failed(asked, self.judge, JUDGING, error)
        listed, _ = texts_of(read)
        made = made_in(asked.caption, listed)
        texts = list(compress(listed, made))
        messages = verify_messages(asked.image, texts, self.pointability)
        try:
            seen = await verifier.chat(
                messages, Verification, check=lambda verification: check_verification(verification, texts)
            )
        except ChatError as error:
            return self._failed(asked, verifier, VERIFYING, error)
        marks = iter(assertion.is_verified for assertion in seen.value.assertions)
        return self._graded(asked, with_marks(read, [known and next(marks) for known in made]))

    def _graded(self, asked: _Asked, answer: CaptionAssertions | None = None) -> GradedCaption:
        """Without the assertions that caption or reference do not make."""
        dropped: tuple[str, ...] = ()
        dropped_of_reference: tuple[str, ...] = ()
        if answer is not None:
            answer, dropped, dropped_of_reference = own_assertions(answer, asked.caption, asked.reference)
        return GradedCaption(
            sample_id=asked.sample_id,
            caption=asked.caption,
            reference=asked.reference,
            judge=self._name,
            assertions=answer,
            dropped=dropped,
            dropped_of_reference=dropped_of_reference,
        )

    def _failed(self, asked: _Asked, client: ChatClient, call: str, error: ChatError) -> GradedCaption:
        if self._on_error is not None:
            self._on_error(FailedCall(asked.sample_id, asked.caption, client.endpoint.model, (call,), error))
        return GradedCaption(
            sample_id=asked.sample_id,
            caption=asked.caption,
            reference=asked.reference,
            judge=self._name,
            error=error.error_class,
            message=error.message,
        )
