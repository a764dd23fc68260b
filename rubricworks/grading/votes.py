"""What several judges say together of one criterion.

A judge that failed has no vote, and it is not known which way it would have voted. So the others decide only when no
vote of the missing ones could change the outcome; otherwise the criterion counts as not judged.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

Combine = Literal["majority", "median", "any"]
"""majority: the credit that most judges gave, the lowest of several that tie; median: the lower one when the number of
judges is even; any: the highest."""

_CREDITS = (0.0, 0.5, 1.0)


def combine_credits(credits: Sequence[float | None], how: Combine) -> float | None:
    """One credit for one criterion; None where it hangs on a judge that failed.

    Args:
        credits: one per judge, None for a judge that failed.
    """
    known = [credit for credit in credits if credit is not None]
    missing = len(credits) - len(known)
    if not missing:
        return _combine(known, how)
    if not known:
        return None
    # The extremes decide for the median and the highest; a mode is overturned most easily by votes for one rival.
    outcomes = {_combine([*known, *[vote] * missing], how) for vote in {*_CREDITS, *known}}
    return outcomes.pop() if len(outcomes) == 1 else None


def _combine(credits: list[float], how: Combine) -> float:
    if how == "any":
        return max(credits)
    if how == "median":
        return sorted(credits)[(len(credits) - 1) // 2]
    counts = Counter(credits)
    most = max(counts.values())
    return min(credit for credit, count in counts.items() if count == most)
