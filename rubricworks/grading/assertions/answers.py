"""Answers of the two calls when judge and verifier are separate, and checks of an answer against its request.

The answer of a single call is `rubrics.CaptionAssertions` itself. Error messages here may be sent back to the model.
"""

from collections.abc import Sequence
from itertools import compress
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from rubricworks.grading.assertions.texts import MIN_OVERLAP, first_surplus, text_states
from rubricworks.rubrics import CaptionAssertions
from rubricworks.rubrics.assertions import AssertionText, CaptionFeatures, ReferenceFeatures, Score, VerifiedAssertion


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListedAssertion(_Answer):
    """One claim of the caption, not yet compared with the image."""

    text: AssertionText


class ListedFeatures(_Answer):
    """Assertions and linguistic scores of the judged caption."""

    atomic_assertions: tuple[ListedAssertion, ...] = Field(max_length=1_000)
    clarity_score: Score
    fluency_score: Score
    coherency_score: Score
    linguistic_scores_explanation: str = Field(max_length=10_000)


class Decomposition(_Answer):
    """A judge's answer from text alone: `CaptionAssertions` without `is_verified`."""

    synthetic_features: ListedFeatures
    gt_features: ReferenceFeatures


class CheckedAssertion(_Answer):
    """The verifier's decision on one assertion."""

    id: Annotated[int, Field(strict=True, ge=1, json_schema_extra={"maximum": 1000})]
    text: AssertionText
    """Verbatim copy of the list's text."""
    is_verified: StrictBool


class Verification(_Answer):
    """A verifier's complete answer, in the order of its list."""

    assertions: tuple[CheckedAssertion, ...] = Field(max_length=1_000)


def texts_of(answer: CaptionAssertions | Decomposition) -> tuple[list[str], list[str]]:
    """Texts of the caption's assertions, and of the reference's."""
    caption = [assertion.text for assertion in answer.synthetic_features.atomic_assertions]
    return caption, [assertion.text for assertion in answer.gt_features.atomic_assertions]


def check_lists(
    answer: CaptionAssertions | Decomposition, caption: str, reference: str, min_overlap: float = MIN_OVERLAP
) -> None:
    """Raise ValueError unless each list holds an assertion that its text makes, and repeats none too often."""
    caption_texts, reference_texts = texts_of(answer)
    _check_list("synthetic_features", "caption", caption, caption_texts, min_overlap)
    _check_list("gt_features", "reference", reference, reference_texts, min_overlap)


def check_verification(verification: Verification, texts: Sequence[str]) -> None:
    """Raise ValueError unless there is one entry per assertion, in order, with its number and text."""
    entries = verification.assertions
    if len(entries) != len(texts):
        raise ValueError(f"assertions has {len(entries)} entries, the list {len(texts)}; give one for each, in order")
    for number, (entry, text) in enumerate(zip(entries, texts, strict=True), start=1):
        if entry.id != number:
            raise ValueError(f"assertions, entry {number}: id is {entry.id}; keep the list's numbers and order")
        if entry.text.split() != text.split():
            raise ValueError(f"assertions, entry {number}: text is not the list's; copy it word for word")


def add_verification(decomposition: Decomposition, marks: Sequence[bool]) -> CaptionAssertions:
    """Complete the judge's answer with the verifier's marks, one per assertion of the caption."""
    features = decomposition.synthetic_features
    verified = [
        VerifiedAssertion(text=assertion.text, is_verified=mark)
        for assertion, mark in zip(features.atomic_assertions, marks, strict=True)
    ]
    fields = features.model_dump(exclude={"atomic_assertions"})
    return CaptionAssertions(
        synthetic_features=CaptionFeatures(atomic_assertions=tuple(verified), **fields),
        gt_features=decomposition.gt_features,
    )


class FilteredAnswer(NamedTuple):
    """An answer without the assertions that its texts do not make, and the dropped ones of caption and reference."""

    answer: CaptionAssertions
    dropped: tuple[str, ...]
    dropped_of_reference: tuple[str, ...]


def filter_assertions(
    answer: CaptionAssertions, caption: str, reference: str, min_overlap: float = MIN_OVERLAP
) -> FilteredAnswer:
    """Drop the assertions that caption or reference do not make, by the test of `assertions.texts`."""
    caption_texts, reference_texts = texts_of(answer)
    mask = text_states(caption, caption_texts, min_overlap)
    reference_mask = text_states(reference, reference_texts, min_overlap)
    features, gt_features = answer.synthetic_features, answer.gt_features
    assertions = tuple(compress(features.atomic_assertions, mask))
    reference_assertions = tuple(compress(gt_features.atomic_assertions, reference_mask))
    return FilteredAnswer(
        CaptionAssertions(
            synthetic_features=features.model_copy(update={"atomic_assertions": assertions}),
            gt_features=gt_features.model_copy(update={"atomic_assertions": reference_assertions}),
        ),
        tuple(text for text, stated in zip(caption_texts, mask, strict=True) if not stated),
        tuple(text for text, stated in zip(reference_texts, reference_mask, strict=True) if not stated),
    )


def _check_list(field: str, name: str, text: str, assertions: list[str], min_overlap: float) -> None:
    location = f"{field}.atomic_assertions"
    if not assertions:
        raise ValueError(f"{location} is empty, but the {name} has words; list all that it says")
    if not any(text_states(text, assertions, min_overlap)):
        raise ValueError(f"{location}: the {name} says none of them; list what it says, in its own words")
    if (index := first_surplus(text, assertions)) is not None:
        raise ValueError(
            f"{location}, entry {index + 1} is listed more often than the {name} says it; "
            "list each claim as often as it is made"
        )
