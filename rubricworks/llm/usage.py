"""What calls used up: per call, and summed over a client's life."""

import threading
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rubricworks.rubrics import ErrorClass


class Usage(NamedTuple):
    """Tokens and dollars of one call, repair turns included; an estimate where the server does not say."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
        )


@dataclass
class Totals:
    """What a client did so far. An answer from the cache counts as a call and costs nothing now."""

    calls: int = 0
    cached: int = 0
    requests: int = 0
    """Sent over the network, retries and repair turns included."""
    errors: dict[ErrorClass, int] = field(default_factory=dict)
    """Calls that failed for good, by class."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    """Summed over calls, waiting for a free place included; calls overlap, so this exceeds the time that passed."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    def count_cached(self) -> None:
        with self._lock:
            self.calls += 1
            self.cached += 1

    def count(self, usage: Usage, requests: int, seconds: float, error: ErrorClass | None = None) -> None:
        with self._lock:
            self.calls += 1
            self.requests += requests
            self.prompt_tokens += usage.prompt_tokens
            self.completion_tokens += usage.completion_tokens
            self.cost += usage.cost
            self.seconds += seconds
            if error is not None:
                self.errors[error] = self.errors.get(error, 0) + 1

    def add(self, other: "Totals") -> None:
        """Take over what another client did."""
        figures = other.as_dict()
        with self._lock:
            for kind, count in figures.pop("errors").items():
                self.errors[ErrorClass(kind)] = self.errors.get(ErrorClass(kind), 0) + count
            for name, value in figures.items():
                setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON takes them."""
        with self._lock:
            return {
                "calls": self.calls,
                "cached": self.cached,
                "requests": self.requests,
                "errors": {kind.value: count for kind, count in self.errors.items()},
                "prompt_tokens": self.prompt_tokens,
                "completion_tokens": self.completion_tokens,
                "cost": self.cost,
                "seconds": round(self.seconds, 3),
            }
