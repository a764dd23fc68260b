"""One metric of base and policy with their intervals."""

from typing import NamedTuple

from rubricworks.metrics import Interval
from rubricworks.reports.headline import is_small

SEVERITY = {"3": "critical", "2": "important", "1": "minor"}


class Comparison(NamedTuple):
    """One metric of both models with one decoding."""

    label: str
    base: Interval | None
    policy: Interval | None

    @property
    def gain(self) -> float | None:
        return self.policy.value - self.base.value if self.base and self.policy else None

    @property
    def few(self) -> bool:
        figures = [figure for figure in (self.base, self.policy) if figure]
        return not figures or any(map(is_small, figures))

    @property
    def disjoint(self) -> bool:
        """True if the two intervals do not overlap; always False for few samples."""
        return bool(self.base and self.policy and not self.few and self.base.is_apart_from(self.policy))
