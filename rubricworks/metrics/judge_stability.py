"""Stability of a judge: verdicts that change between two draws of one question, and its drift over time.

Verdicts on one response err together, so a response is one observation.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import fmean
from typing import NamedTuple

from rubricworks.metrics.intervals import Interval, share_interval, t_interval, widen_share


class Drift(NamedTuple):
    """Change of a judge's credits of the same responses."""

    changed: Interval
    """Share of the verdicts that are others than at the start."""
    difference: Interval
    """Mean credit now minus that at the start."""


def flip_rate(draws: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None) -> Interval | None:
    """Probability that two draws of the same verdict differ; None without an item of two draws or more.

    Args:
        draws: credits of each item, in any number.
        clusters: response of each item.
    """
    shares = [_disagreement(several) for several in draws]
    return share_interval(shares, clusters=clusters) if any(share is not None for share in shares) else None


def drift(start: Sequence[float], now: Sequence[float], clusters: Sequence[Hashable], *, level: float = 0.95) -> Drift:
    """Drift between two gradings of the same items, responses weighing alike, with Student's intervals over them.

    A bootstrap over a dozen responses is too narrow at the high levels that many looks need.

    Raises:
        ValueError: there is no item, or the lengths differ.
    """
    changes: dict[Hashable, list[float]] = {}
    for before, after, cluster in zip(start, now, clusters, strict=True):
        changes.setdefault(cluster, []).append(after - before)
    if not changes:
        raise ValueError("there is no verdict to compare")
    shares = [fmean(float(change != 0) for change in several) for several in changes.values()]
    changed = widen_share(t_interval(shares, level), len(shares), level)
    return Drift(changed, t_interval([fmean(several) for several in changes.values()], level))


def _disagreement(draws: Sequence[float]) -> float | None:
    """Share of the pairs of draws that differ."""
    count = len(draws)
    if count < 2:
        return None
    equal = sum(times * (times - 1) for times in Counter(draws).values())
    return 1 - equal / (count * (count - 1))
