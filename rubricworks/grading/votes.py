"""Combination of several judges' credits for one criterion.

The vote of a failed judge is unknown. So the others decide only if no vote of the missing judges could change the
outcome; otherwise the criterion is not judged.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

Combine = Literal["majority", "median", "any"]
"""majority: the most frequent credit, the lowest of those that tie; median: the lower one for an even number of judges;
any: the highest.
"""

_CREDITS = (0.0, 0.5, 1.0)


def combine_credits(credits: Sequence[float | None], combine: Combine) -> float | None:
    """Combine credits for one criterion; None if the result depends on a failed judge.

    Args:
        credits: one per judge, None for a failed judge.
        combine: rule of combination.
    """
    votes = [credit for credit in credits if credit is not None]
    missing = len(credits) - len(votes)
    if not missing:
        return _combine(votes, combine)
    if not votes:
        return None
    # Extreme votes decide the median and the maximum; a mode is overturned most easily by equal votes for one rival.
    outcomes = {_combine([*votes, *[vote] * missing], combine) for vote in {*_CREDITS, *votes}}
    return outcomes.pop() if len(outcomes) == 1 else None


def _combine(credits: list[float], combine: Combine) -> float:
    if combine == "any":
        return max(credits)
    if combine == "median":
        return sorted(credits)[(len(credits) - 1) // 2]
    counts = Counter(credits)
    top = max(counts.values())
    return min(credit for credit, count in counts.items() if count == top)
