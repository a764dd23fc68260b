"""Remapping of one criterion's scores within their group (RLR3, section 4.3.1, equations 2 and 3).

Verifier scores lie close together: an edit similarity is above 0.9 with one mistake and with ten. Within a group they
are stretched over [l, u], whose ends preserve the level of the group: l = 0 only if a score is below the threshold
(failed), u = 1 only if a score is above it (passed).
"""

import math
from collections.abc import Sequence

_DECIMALS = 12
"""Rounding: (0.5 - 0.2) / (0.8 - 0.2) is 0.49999999999999994, which would fail an essential criterion."""


def remap_group(scores: Sequence[float | None], threshold: float = 0.5) -> list[float | None]:
    """Remap the scores of one criterion over the responses of one group.

    Args:
        scores: one score in [0, 1] per response. None (or NaN) where it could not be judged: it stays None and does not
            affect the others.
        threshold: tau of the paper, between 0 and 1.
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
    lowest, highest = min(judged), max(judged)
    lower = 0.0 if lowest < threshold else 0.5
    upper = 1.0 if highest > threshold else 0.5

    def remapped(score: float) -> float:
        if lowest == highest:
            return upper if highest > threshold else lower
        return round((score - lowest) / (highest - lowest) * (upper - lower) + lower, _DECIMALS)

    return [None if score is None or math.isnan(score) else remapped(score) for score in scores]
