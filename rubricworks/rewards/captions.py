"""Precision, recall and linguistic reward of a caption, from a judge's assertions (BalCapRL, section 2.1).

Precision is the fraction of the caption's claims that are true and pointable, recall the fraction of the reference's
claims that the caption covers, and linguistic the mean of clarity, fluency and coherency, each mapped from 1..10 to
0..1 by (x - 1) / 9. The length gate is not applied here: training sets linguistic to 0 where `length_gate` is False,
and b-CapScore uses the ungated value.

Length gate of BalCapRL (section 2.3) and the linear length penalty it is compared with (A.2-A.4).

Both depend on rho = pred_len / ref_len, with both lengths in the same unit (the paper: tokens of the policy). The gate
sets the linguistic reward to 0; the penalty is subtracted from the normalised advantage.
"""

import math
from typing import NamedTuple

from rubricworks.rubrics import CaptionAssertions


class CaptionScores(NamedTuple):
    """The three rewards, each in [0, 1]; None if the judge listed no claims."""

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


def length_gate(pred_len: int, ref_len: int, lower: float = 0.5, upper: float = 2.0) -> bool:
    """Return True if lower <= rho <= upper.

    Raises:
        ValueError: a length is negative, the reference is empty, or the bounds are not a range.
    """
    return lower <= _ratio(pred_len, ref_len, lower, upper) <= upper


def linear_length_penalty(pred_len: int, ref_len: int, lower: float, upper: float, scale: float) -> float:
    """Compute scale * (max(rho - upper, 0) + max(lower - rho, 0)), which is never negative.

    Args:
        scale: lambda of the paper, at least 0; the paper does not give its value.
    Raises:
        ValueError: as for `length_gate`, or scale is negative or not finite.
    """
    if not (scale >= 0 and math.isfinite(scale)):
        raise ValueError(f"scale is {scale}; a penalty's scale is a number of at least 0")
    ratio = _ratio(pred_len, ref_len, lower, upper)
    return scale * (max(ratio - upper, 0.0) + max(lower - ratio, 0.0))


def _ratio(pred_len: int, ref_len: int, lower: float, upper: float) -> float:
    if pred_len < 0 or ref_len < 0:
        raise ValueError(f"lengths are {pred_len} and {ref_len}; a length is at least 0")
    if ref_len == 0:
        raise ValueError("the reference is empty: no length can be compared with 0; leave the sample out")
    if not 0 <= lower <= upper:
        raise ValueError(f"the length ratio may lie from {lower} to {upper}; give 0 <= lower <= upper")
    return pred_len / ref_len
