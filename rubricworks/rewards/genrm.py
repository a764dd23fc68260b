"""Reward of a GenRM in training: half format, half content (RLR³, section 4.4)."""

from collections.abc import Sequence
from typing import NamedTuple


class GenrmReward(NamedTuple):
    """The two families of verifiable rewards, each in [0, 1]."""

    format: float
    content: float

    @property
    def total(self) -> float:
        """Mean of the two."""
        return (self.format + self.content) / 2


def genrm_reward(valid: bool, scores: Sequence[float], surplus: int = 0) -> GenrmReward:
    """Compute the reward of one output. Invalid output gets 0: it is the policy's own failure, not a judge's.

    Args:
        valid: the output is one JSON object with all fields of the expected types, and nothing else.
        scores: one score per criterion of the checklist; 0 for a criterion that is missing or not verbatim.
        surplus: number of entries beyond the checklist's; each counts as a criterion with score 0.
    Raises:
        ValueError: no scores, or one outside [0, 1].
    """
    if not scores:
        raise ValueError("no scores: a checklist has at least one criterion")
    if bad := [score for score in scores if not 0 <= score <= 1]:
        raise ValueError(f"a score is {bad[0]}; scores lie between 0 and 1")
    if not valid:
        return GenrmReward(0.0, 0.0)
    return GenrmReward(1.0, sum(scores) / (len(scores) + surplus))
