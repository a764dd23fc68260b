"""One metric of base and policy with their intervals."""

from typing import NamedTuple

from rubricworks.evaluation.summary import MeanScore
from rubricworks.reports.headline import FEW

SEVERITY = {"3": "critical", "2": "important", "1": "minor"}


class Comparison(NamedTuple):
    """One metric of both models with one decoding."""

    label: str
    base: MeanScore | None
    policy: MeanScore | None

    @property
    def gain(self) -> float | None:
        return self.policy.value - self.base.value if self.base and self.policy else None

    @property
    def few(self) -> bool:
        return min((figure.samples for figure in (self.base, self.policy) if figure), default=0) < FEW

    @property
    def disjoint(self) -> bool:
        """True if the two intervals do not overlap; always False for few samples."""
        if not (self.base and self.policy) or self.few:
            return False
        return self.base.high < self.policy.low or self.policy.high < self.base.low
