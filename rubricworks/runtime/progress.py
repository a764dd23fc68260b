"""Progress of items: lines on standard error with rate, ETA, model calls and their cost, and the stage's progress file.

Lines, not a bar: they read the same in a terminal, in a log and in a pod.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence

from rubricworks.llm import ChatClient
from rubricworks.reports.formats import dollars, duration
from rubricworks.runtime.stage_progress import ProgressFile


class Progress:
    """Progress of a stage towards a known total of items."""

    def __init__(
        self,
        label: str,
        total: int,
        unit: str,
        *,
        clients: Sequence[ChatClient] = (),
        every: float = 5.0,
        file: ProgressFile | None = None,
    ) -> None:
        """
        Args:
            clients: clients whose calls the line shows; read again for each line.
            every: minimum seconds between two lines.
            file: the stage's progress file.
        """
        self.label, self.total, self.unit, self.clients, self.every = label, total, unit, clients, every
        self.done = 0
        self.skipped = 0
        self._start = self._last = time.monotonic()
        self._file = file
        if file is not None:
            file.write(0, total, unit, 0.0)

    def at(self, done: int, skipped: int = 0) -> None:
        """Report `done` items, of which `skipped` are an earlier attempt's and do not count towards the rate."""
        self.done, self.skipped = done, skipped
        now = time.monotonic()
        if now - self._last >= self.every or done >= self.total:
            self._last = now
            print(self.line(now), file=sys.stderr, flush=True)
            if self._file is not None:
                self._file.write(self.done, self.total, self.unit, self._rate(now))

    def _rate(self, now: float) -> float:
        return (self.done - self.skipped) / max(now - self._start, 1e-3)

    def line(self, now: float) -> str:
        rate = self._rate(now)
        parts = [f"{self.done}/{self.total} {self.unit}", f"{rate:.1f}/s"]
        if self.skipped:
            parts.append(f"{self.skipped} there already")
        if self.done < self.total and rate:
            parts.append(f"ETA {duration((self.total - self.done) / rate)}")
        return "  ".join([*parts, *call_figures(self.clients)])


class VerdictProgress:
    """Progress of the judges during a training, beside the trainer's own step lines: verdicts, rate and cost."""

    def __init__(self, clients: Sequence[ChatClient], *, every: float = 10.0) -> None:
        self.clients, self.every = clients, every
        self.verdicts = 0
        self._start = self._last = time.monotonic()

    def add(self, verdicts: int) -> None:
        self.verdicts += verdicts
        now = time.monotonic()
        if now - self._last >= self.every:
            self._last = now
            rate = self.verdicts / max(now - self._start, 1e-3)
            parts = [f"{self.verdicts:,} verdicts", f"{rate:,.0f}/s", *call_figures(self.clients)]
            print("  ".join(parts), file=sys.stderr, flush=True)


def call_figures(clients: Sequence[ChatClient]) -> list[str]:
    """Return the non-zero figures of all clients together: in flight, cached, errors by class, tokens, dollars."""
    totals = [client.totals for client in clients]
    calls, cached = sum(total.calls for total in totals), sum(total.cached for total in totals)
    if not calls:
        return []
    limiters = {id(client.limiter): client.limiter for client in clients}.values()
    in_flight = sum(limiter.in_flight for limiter in limiters)
    throttled = sum(limiter.throttled for limiter in limiters)
    errors: Counter[str] = Counter()
    for total in totals:
        errors.update({kind.value: count for kind, count in total.errors.items()})
    tokens = sum(total.prompt_tokens + total.completion_tokens for total in totals)
    cost = sum(total.cost for total in totals)
    parts = [f"{in_flight} in flight"] if in_flight else []
    if cached:
        parts.append(f"{100 * cached / calls:.0f}% cached")
    if throttled:
        parts.append(f"{throttled} x 429")
    parts += [f"{count} {kind}" for kind, count in sorted(errors.items())]
    if tokens:
        parts.append(f"{_short(tokens)} tokens")
    if cost:
        parts.append(dollars(cost))
    return parts


def _short(count: int) -> str:
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return str(count)
