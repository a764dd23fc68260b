"""Length gate of BalCapRL (section 2.3) and the linear length penalty it is compared with (A.2-A.4).

Both depend on rho = pred_len / ref_len, with both lengths in the same unit (the paper: tokens of the policy). The gate
sets the linguistic reward to 0; the penalty is subtracted from the normalised advantage.
"""

import math


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
