"""One line now and then on standard error: how far, how fast, how long still, what it cost."""

import sys
import time
from collections.abc import Callable

from rubricworks.reports.formats import duration


class Progress:
    """Counts what is done. Lines, not a bar: they read the same in a terminal, in a log and in a pod."""

    def __init__(self, label: str, total: int, unit: str, *, cost: Callable[[], float], every: float = 5.0) -> None:
        self.label, self.total, self.unit, self.cost, self.every = label, total, unit, cost, every
        self.done = 0
        self.skipped = 0
        self._start = self._last = time.monotonic()

    def at(self, done: int, skipped: int = 0) -> None:
        """Report how many are done, and how many of those an earlier run did: they do not count towards the rate."""
        self.done, self.skipped = done, skipped
        now = time.monotonic()
        if now - self._last >= self.every or done >= self.total:
            self._last = now
            print(self.line(now), file=sys.stderr, flush=True)

    def line(self, now: float) -> str:
        elapsed = max(now - self._start, 1e-3)
        rate = (self.done - self.skipped) / elapsed
        parts = [f"{self.done}/{self.total} {self.unit}", f"{rate:.1f}/s"]
        if self.skipped:
            parts.append(f"{self.skipped} there already")
        if self.done < self.total and rate:
            parts.append(f"ETA {duration((self.total - self.done) / rate)}")
        if self.cost():
            parts.append(f"${self.cost():.4f}")
        return "  ".join(parts)
