"""Precision, recall and linguistic reward of a caption, from a judge's assertions (BalCapRL, section 2.1).

Precision is the fraction of the caption's claims that are true and pointable, recall the fraction of the reference's
claims that the caption covers, and linguistic the mean of clarity, fluency and coherency, each mapped from 1..10 to
0..1 by (x - 1) / 9. The length gate is not applied here: training sets linguistic to 0 where `length_gate` is False,
and b-CapScore uses the ungated value.
"""

from typing import NamedTuple

from rubricworks.rubrics import CaptionAssertions


class CaptionScores(NamedTuple):
    """The three rewards, each in [0, 1]; None if the judge listed no claims to take a fraction of."""

    precision: float | None
    recall: float | None
    linguistic: float


def caption_scores(assertions: CaptionAssertions) -> CaptionScores:
    """Compute the three rewards of one caption.

    Precision is None without a claim. The caller, who has the text, decides whether that is a judge failure or an empty
    caption, whose reward is 0.
    """
    caption, reference = assertions.synthetic_features, assertions.gt_features
    ratings = (caption.clarity_score, caption.fluency_score, caption.coherency_score)
    return CaptionScores(
        precision=_share([assertion.is_verified for assertion in caption.atomic_assertions]),
        recall=_share([assertion.is_covered for assertion in reference.atomic_assertions]),
        linguistic=sum(rating - 1 for rating in ratings) / 27,
    )


def _share(marks: list[bool]) -> float | None:
    return sum(marks) / len(marks) if marks else None
