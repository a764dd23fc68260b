"""Student's t interval of a mean over a handful of independent runs.

The distribution's closed form for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4) is inverted by
bisection, so that the core needs no statistics package.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import mean, stdev


def t_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """The bounds of the mean at a level; None for fewer than two values, whose spread is unknown."""
    if len(values) < 2:
        return None
    # Exact sums: equal values have no spread at all, and the interval is that one point.
    reach = t_quantile(level, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return mean(values) - reach, mean(values) + reach


@lru_cache
def t_quantile(level: float, freedom: int) -> float:
    """The t whose distribution has a share of `level` between -t and t.

    Raises:
        ValueError: the level is not between 0 and 1, or there is no degree of freedom.
    """
    if not 0 < level < 1 or freedom < 1:
        raise ValueError(f"level is {level}, degrees of freedom {freedom}; between 0 and 1, and at least 1")
    low, high = 0.0, 1.0
    while _between(high, freedom) < level:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _between(middle, freedom) < level else (low, middle)
    return (low + high) / 2


def _between(t: float, freedom: int) -> float:
    """The share of the distribution between -t and t."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = cosine if odd else 1.0, 0.0
    for factor in range(2 if odd else 1, freedom, 2):
        total += term
        term *= cosine * cosine * factor / (factor + 1)
    return (angle + sine * total) * 2 / math.pi if odd else sine * total
