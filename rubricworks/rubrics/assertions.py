"""A judge's assertions about a caption and its reference caption, claim by claim (BalCapRL, appendix A.2).

The field names are those of the paper's answer format, so that a judge's JSON validates directly. Every claim of the
caption is listed, including meta-commentary; `is_verified` requires that the claim is true of the image and pointable
(appendix A.4's looser test for evaluation fills the same fields). A list is empty if the caption or the reference makes
no claim. It may hold a claim twice, because a judge may split a repetitive caption that way: each entry counts, and the
clarity score penalises repetition.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; say what the caption claims")
    return text


AssertionText = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_not_blank)]
Score = Annotated[int, Field(strict=True, ge=1, le=10)]
"""An integer, 10 is best; a judge's 9.0, "9/10" or true is malformed."""


class VerifiedAssertion(BaseModel):
    """One claim of the caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: AssertionText
    is_verified: StrictBool
    """True of the image and pointable."""


class CoveredAssertion(BaseModel):
    """One claim of the reference caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: AssertionText
    is_covered: StrictBool
    """True if the caption states it, in any words."""


class CaptionFeatures(BaseModel):
    """Assertions and linguistic scores of the judged caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    atomic_assertions: tuple[VerifiedAssertion, ...] = Field(max_length=1_000)
    clarity_score: Score
    fluency_score: Score
    coherency_score: Score
    linguistic_scores_explanation: str = Field(max_length=10_000)


class ReferenceFeatures(BaseModel):
    """Assertions of the reference ("ground truth") caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    atomic_assertions: tuple[CoveredAssertion, ...] = Field(max_length=1_000)


class CaptionAssertions(BaseModel):
    """A judge's complete answer about one caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    synthetic_features: CaptionFeatures
    gt_features: ReferenceFeatures
