"""A judge's assertions to the three rewards of a caption (BalCapRL, section 2.1).

Precision is the share of the caption's claims that are true and pointable, recall the share of the reference's claims
that the caption covers, and linguistic the mean of clarity, fluency and coherency, each brought from 1..10 to 0..1 by
(x - 1) / 9. The length gate is not applied here: training sets linguistic to 0 where `length_gate` is shut, while
b-CapScore takes it as it is.
"""

from typing import NamedTuple

from rubricworks.rubrics import CaptionAssertions


class CaptionScores(NamedTuple):
    """Each in [0, 1]; None where nothing was listed to take a share of: it could not be judged."""

    precision: float | None
    recall: float | None
    linguistic: float


def caption_scores(assertions: CaptionAssertions) -> CaptionScores:
    """The three rewards of one caption.

    A caption without a claim has no precision. Whether that was the judge's failure or an empty caption, which earns
    nothing, is for the caller to say, who has the text.
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
