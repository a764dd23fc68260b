"""One criterion's scores, spread out within their group (RLR3, section 4.3.1, equations 2 and 3).

Verifiers give scores that lie close together: an edit similarity is above 0.9 with one mistake and with ten. Within a
group they are stretched over [l, u], whose ends keep what the group as a whole earned: l = 0 only if one failed (below
the threshold), u = 1 only if one passed (above it).
"""

import math
from collections.abc import Sequence

_DIGITS = 12
"""(0.5 - 0.2) / (0.8 - 0.2) is 0.49999999999999994, and what is below 0.5 fails an essential criterion."""


def remap_group(scores: Sequence[float | None], threshold: float = 0.5) -> list[float | None]:
    """The remapped scores of one criterion on the responses of one group, in their order.

    Args:
        scores: one in [0, 1] per response; None (or NaN) where it could not be judged: it stays None, and the others
            are remapped as if it were not there.
        threshold: the paper's tau, between 0 and 1.
    Raises:
        ValueError: a score or the threshold lies outside [0, 1].
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold is {threshold}; it lies between 0 and 1")
    judged = [score for score in scores if score is not None and not math.isnan(score)]
    for score in judged:
        if not 0 <= score <= 1:
            raise ValueError(f"score {score} is outside [0, 1]")
    if not judged:
        return [None] * len(scores)
    least, most = min(judged), max(judged)
    low = 0.0 if least < threshold else 0.5
    high = 1.0 if most > threshold else 0.5

    def remapped(score: float) -> float:
        if least == most:
            return high if most > threshold else low
        return round((score - least) / (most - least) * (high - low) + low, _DIGITS)

    return [None if score is None or math.isnan(score) else remapped(score) for score in scores]
