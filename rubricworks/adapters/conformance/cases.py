"""Groups of rollouts whose rewards are partly missing, as a judge's failures leave them."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Aggregation = Literal["sum", "decoupled"]
"""Several rewards are summed and then normalised within the group (GRPO), or normalised one by one (GDPO)."""


class Failure(StrEnum):
    """Form in which a reward function reports that it could not judge a rollout."""

    NONE = "none"
    NAN = "nan"
    RAISES = "raises"
    TIMEOUT = "timeout"


Cell = float | Failure
"""One reward of one rollout: a number, or the way in which it is missing."""


@dataclass(frozen=True)
class Batch:
    """Rewards of N rollouts by K reward functions, rows ordered group by group."""

    rewards_NK: tuple[tuple[Cell, ...], ...]
    group_size: int
    aggregation: Aggregation = "sum"

    @property
    def judged_N(self) -> list[bool]:
        """Return, per rollout, True if all its rewards are numbers."""
        return [not any(isinstance(cell, Failure) for cell in row) for row in self.rewards_NK]

    def with_zeros(self) -> "Batch":
        """The batch with 0 in the place of each missing reward."""
        rows = tuple(tuple(0.0 if isinstance(cell, Failure) else cell for cell in row) for row in self.rewards_NK)
        return Batch(rows, self.group_size, self.aggregation)

    def judged_only(self) -> "Batch | None":
        """The batch as if unjudged rollouts had never been drawn; None if no group has two judged ones.

        Raises:
            ValueError: the groups keep different numbers of rollouts, at least two each.
        """
        groups = []
        for start in range(0, len(self.rewards_NK), self.group_size):
            rows = range(start, start + self.group_size)
            judged = [self.rewards_NK[row] for row in rows if self.judged_N[row]]
            if len(judged) > 1:
                groups.append(judged)
        if not groups:
            return None
        if len({len(group) for group in groups}) > 1:
            raise ValueError("the groups of a case keep different numbers of rollouts")
        return Batch(tuple(row for group in groups for row in group), len(groups[0]), self.aggregation)


@dataclass(frozen=True)
class Case:
    """A batch with a name, and what happened to its judge."""

    name: str
    story: str
    batch: Batch

    def expected(self, judged_only: list[float]) -> list[float]:
        """Advantages of the case's rollouts, given those that the trainer computes for the judged ones alone."""
        values = iter(judged_only)
        size, judged = self.batch.group_size, self.batch.judged_N
        expected = []
        for start in range(0, len(judged), size):
            compared = sum(judged[start : start + size]) > 1
            expected += [next(values) if compared and is_judged else 0.0 for is_judged in judged[start : start + size]]
        return expected


def _one(failure: Failure) -> Batch:
    return Batch(((0.2,), (failure,), (0.8,), (0.5,)), 4)


_NONE = (Failure.NONE,)
_PARTLY = ((0.2, 0.4), (0.6, Failure.NONE), (0.8, 0.1), (0.5, 0.9))
_EQUALS = ((0.9,), (0.9,), _NONE, (0.9,))
_ONE_LEFT = (_NONE, _NONE, (0.8,), _NONE)
_NONE_LEFT = (*(_NONE,) * 4, (0.2,), (0.6,), (0.8,), (0.5,))

CASES = (
    Case("none", "the judge fails on one rollout; the reward function returns None for it", _one(Failure.NONE)),
    Case("nan", "the same, and the reward function returns NaN", _one(Failure.NAN)),
    Case("raises", "the same, and the reward function raises", _one(Failure.RAISES)),
    Case("timeout", "the judge does not answer in time", _one(Failure.TIMEOUT)),
    Case("partly", "one of two rewards of a rollout is missing", Batch(_PARTLY, 4)),
    Case("partly-decoupled", "the same, each reward normalised by itself (GDPO)", Batch(_PARTLY, 4, "decoupled")),
    Case("equals", "the judged rollouts are equal: nothing is to be learnt", Batch(_EQUALS, 4)),
    Case("one-left", "one rollout of the group is judged, and has none to be compared with", Batch(_ONE_LEFT, 4)),
    Case("none-left", "no rollout of a group is judged; another group is judged whole", Batch(_NONE_LEFT, 4)),
)


def number(cell: Cell) -> float | None:
    """Value that a reward function returns for a cell.

    Raises:
        RuntimeError, TimeoutError: the cell is a failure that raises.
    """
    if cell is Failure.RAISES:
        raise RuntimeError("the judge answered HTTP 500")
    if cell is Failure.TIMEOUT:
        raise TimeoutError("the judge did not answer in time")
    if isinstance(cell, Failure):
        return math.nan if cell is Failure.NAN else None
    return cell
