"""Progress of items: lines on standard error with rate, ETA, model calls and their cost, and the stage's progress file.

Lines, not a bar: they read the same in a terminal, in a log and in a pod.

Progress of a stage at work as one small file of the run, which others read without its log or tables.

state/STAGE/progress.json    replaced every few seconds; a store gets it with the stage's other state
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient
from rubricworks.llm.spending import SPENDING_FILE, read_spending
from rubricworks.redaction import foreign_line
from rubricworks.reports.formats import dollars, duration
from rubricworks.runtime.store.run_state import PROGRESS_FILE, STATE
from rubricworks.storage import write_atomic
from rubricworks.terminal import say
from rubricworks.training.processes import is_main

_EVERY_S = 4.0
"""Less than the time between two lines of `progress`, each of which replaces the file."""


Line = Annotated[str, AfterValidator(foreign_line)]


class StageProgress(BaseModel):
    """Items or steps that a stage has done of all, and what the run has cost by then."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    done: int
    total: int
    unit: Line
    """Such as `samples` or `steps`."""
    rate: float
    """Units a second, in this attempt."""
    seconds_left: float | None
    """None before there is a rate, and at the end."""
    tokens: int
    """Tokens of the whole run so far."""
    dollars: float
    waiting: Line = ""
    """Reason for which pods of the stage wait, such as a quota; empty if none does."""


class ProgressFile:
    """Progress file of one stage. If it cannot be written, the stage continues."""

    def __init__(self, run: Path, stage: str) -> None:
        self._run, self._path = run, run / progress_path(stage)
        self._next, self._waiting = 0.0, ""

    def write(self, done: int, total: int, unit: str, rate: float, waiting: str = "") -> None:
        """Replace the file, unless it was replaced a moment ago and there is more to come. The main process alone does.

        Args:
            rate: units a second.
            waiting: reason for which pods of the stage wait; a change is written at once.
        """
        now = time.monotonic()
        if not is_main() or (now < self._next and done < total and waiting == self._waiting):
            return
        self._next, self._waiting = now + _EVERY_S, waiting
        left = (total - done) / rate if rate > 0 and done < total else None
        try:
            spending = read_spending(self._run / SPENDING_FILE)
            progress = StageProgress(
                done=done,
                total=total,
                unit=unit,
                rate=rate,
                seconds_left=left,
                tokens=sum(row["prompt_tokens"] + row["completion_tokens"] for row in spending),
                dollars=sum(row["cost"] for row in spending),
                waiting=waiting,
            )
            write_atomic(self._path, progress.model_dump_json().encode())
        except (UserError, ValidationError):
            return

    def clear(self) -> None:
        """Drop the file of an earlier attempt."""
        if is_main():
            self._path.unlink(missing_ok=True)


def progress_path(stage: str) -> str:
    """Path of a stage's progress below the run's folder."""
    return f"{STATE}/{stage}/{PROGRESS_FILE}"


def parse_progress(content: bytes | None) -> StageProgress | None:
    """Progress that a file holds; None if the file is missing or damaged."""
    try:
        return StageProgress.model_validate_json(content) if content else None
    except ValidationError:
        return None


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
            say(self.line(now))
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
            say("  ".join(parts))


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
