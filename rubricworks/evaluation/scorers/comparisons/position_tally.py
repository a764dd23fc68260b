"""Positions that a pairwise judge prefers.

A judge that reads nothing and always names the same position gives an even score against any model, so its verdicts
look like a close race. Of comparisons without a tie, 20 in a row for one position happen to a judge without a bias once
in half a million.
"""

from collections import Counter
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

_ENOUGH = 20


class PairwiseJudgment(BaseModel):
    """The judge's answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reason: str
    judgment: Literal["A", "B", "Tie"]


class PairwiseResult(NamedTuple):
    """Result of one caption against another."""

    win: float
    """1 for a win, 0 for a loss, 0.5 for a tie; with both orders also 0.25 and 0.75."""
    judgments: tuple[PairwiseJudgment, ...]
    own_first: tuple[bool, ...]
    """True for each judgment in which the caption was A."""


class PositionTally:
    """Count of a judge's verdicts by position."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, result: PairwiseResult) -> None:
        self.counts.update(judgment.judgment for judgment in result.judgments)

    @property
    def fault(self) -> str | None:
        """Sentence about a judge that always names one position; None if it does not."""
        decided = {letter: count for letter, count in self.counts.items() if letter != "Tie"}
        if len(decided) != 1 or (count := sum(decided.values())) < _ENOUGH:
            return None
        letter = next(iter(decided))
        return (
            f"in all of {count} comparisons the judge prefers the caption in position {letter}, whichever it is: its "
            "verdicts say nothing about the captions; take another judge"
        )
