"""What a judge says of a caption, claim by claim, beside a reference caption (BalCapRL, appendix A.2).

The field names are those of the paper's answer format, so that a judge's JSON is read as it stands. Every claim of the
caption is listed, meta-commentary too; `is_verified` needs both that it is true of the image and that it is pointable
(appendix A.4's looser test for evaluation fills the same fields). A list may be empty: the caption or the reference
makes no claim. It may also hold a claim twice, because a judge may split a repetitive caption so: each entry counts,
and repetition is what the clarity score is for.
"""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; say what the caption claims")
    return text


AssertionText = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_not_blank)]
Score = Annotated[int, Field(strict=True, ge=1, le=10)]
"""A whole number, 10 the best; a judge's 9.0, "9/10" or true is malformed."""


class VerifiedAssertion(BaseModel):
    """One claim of the caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: AssertionText
    is_verified: StrictBool
    """True of the image and pointable, both."""


class CoveredAssertion(BaseModel):
    """One claim of the reference caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: AssertionText
    is_covered: StrictBool
    """Whether the caption says it, in whatever words."""


class CaptionFeatures(BaseModel):
    """Of the caption that is judged."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    atomic_assertions: tuple[VerifiedAssertion, ...] = Field(max_length=1_000)
    clarity_score: Score
    fluency_score: Score
    coherency_score: Score
    linguistic_scores_explanation: str = Field(max_length=10_000)


class ReferenceFeatures(BaseModel):
    """Of the reference ("ground truth") caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    atomic_assertions: tuple[CoveredAssertion, ...] = Field(max_length=1_000)


class CaptionAssertions(BaseModel):
    """A judge's whole answer about one caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    synthetic_features: CaptionFeatures
    gt_features: ReferenceFeatures
