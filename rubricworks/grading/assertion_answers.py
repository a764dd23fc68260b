"""What the two calls answer when judge and verifier work apart, and whether an answer fits what was asked.

The answer of a single call is `rubrics.CaptionAssertions` itself. Every message here may go back to the model.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from rubricworks.grading.assertion_texts import first_surplus, made_in
from rubricworks.rubrics import CaptionAssertions
from rubricworks.rubrics.assertions import AssertionText, CaptionFeatures, ReferenceFeatures, Score, VerifiedAssertion


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListedAssertion(_Answer):
    """One claim of the caption, not yet compared with the image."""

    text: AssertionText


class ListedFeatures(_Answer):
    """Of the caption that is judged."""

    atomic_assertions: tuple[ListedAssertion, ...] = Field(max_length=1_000)
    clarity_score: Score
    fluency_score: Score
    coherency_score: Score
    linguistic_scores_explanation: str = Field(max_length=10_000)


class Decomposition(_Answer):
    """What a judge says from text alone: `CaptionAssertions` without `is_verified`."""

    synthetic_features: ListedFeatures
    gt_features: ReferenceFeatures


class CheckedAssertion(_Answer):
    """The verifier's word on one assertion."""

    id: Annotated[int, Field(strict=True, ge=1)]
    text: AssertionText
    """Word for word the list's."""
    is_verified: StrictBool


class Verification(_Answer):
    """A verifier's whole answer, in the order of the list that it was given."""

    assertions: tuple[CheckedAssertion, ...] = Field(max_length=1_000)


def texts_of(answer: CaptionAssertions | Decomposition) -> tuple[list[str], list[str]]:
    """The assertions of the caption, and those of the reference."""
    caption = [assertion.text for assertion in answer.synthetic_features.atomic_assertions]
    return caption, [assertion.text for assertion in answer.gt_features.atomic_assertions]


def check_lists(answer: CaptionAssertions | Decomposition, caption: str, reference: str) -> None:
    """Raise ValueError unless both lists hold an assertion that their text makes, and none too often."""
    of_caption, of_reference = texts_of(answer)
    _check_list("synthetic_features", "caption", caption, of_caption)
    _check_list("gt_features", "reference", reference, of_reference)


def check_verification(verification: Verification, texts: Sequence[str]) -> None:
    """Raise ValueError unless there is one entry for each assertion, in order, with its number and text."""
    entries = verification.assertions
    if len(entries) != len(texts):
        raise ValueError(f"assertions has {len(entries)} entries, the list {len(texts)}; give one for each, in order")
    for number, (entry, text) in enumerate(zip(entries, texts, strict=True), start=1):
        if entry.id != number:
            raise ValueError(f"assertions, entry {number}: id is {entry.id}; keep the list's numbers and order")
        if entry.text.split() != text.split():
            raise ValueError(f"assertions, entry {number}: text is not the list's; copy it word for word")


def with_marks(read: Decomposition, marks: Sequence[bool]) -> CaptionAssertions:
    """The judge's answer completed with a verifier's: one mark for each assertion of the caption."""
    features = read.synthetic_features
    verified = [
        VerifiedAssertion(text=assertion.text, is_verified=mark)
        for assertion, mark in zip(features.atomic_assertions, marks, strict=True)
    ]
    fields = features.model_dump(exclude={"atomic_assertions"})
    return CaptionAssertions(
        synthetic_features=CaptionFeatures(atomic_assertions=tuple(verified), **fields), gt_features=read.gt_features
    )


class OwnAssertions(NamedTuple):
    """An answer without the assertions that its texts do not make, and these, of caption and reference."""

    answer: CaptionAssertions
    dropped: tuple[str, ...]
    dropped_of_reference: tuple[str, ...]


def own_assertions(answer: CaptionAssertions, caption: str, reference: str) -> OwnAssertions:
    """See `assertion_texts` for when a text makes an assertion."""
    of_caption, of_reference = texts_of(answer)
    made, made_of_reference = made_in(caption, of_caption), made_in(reference, of_reference)
    features, gt_features = answer.synthetic_features, answer.gt_features
    kept = tuple(compress(features.atomic_assertions, made))
    kept_of_reference = tuple(compress(gt_features.atomic_assertions, made_of_reference))
    return OwnAssertions(
        CaptionAssertions(
            synthetic_features=features.model_copy(update={"atomic_assertions": kept}),
            gt_features=gt_features.model_copy(update={"atomic_assertions": kept_of_reference}),
        ),
        tuple(text for text, own in zip(of_caption, made, strict=True) if not own),
        tuple(text for text, own in zip(of_reference, made_of_reference, strict=True) if not own),
    )


def _check_list(field: str, name: str, text: str, assertions: list[str]) -> None:
    place = f"{field}.atomic_assertions"
    if not assertions:
        raise ValueError(f"{place} is empty, but the {name} has words; list all that it says")
    if not any(made_in(text, assertions)):
        raise ValueError(f"{place}: the {name} says none of them; list what it says, in its own words")
    if (surplus := first_surplus(text, assertions)) is not None:
        raise ValueError(
            f"{place}, entry {surplus + 1} is listed more often than the {name} says it; "
            "list each claim as often as it is made"
        )
