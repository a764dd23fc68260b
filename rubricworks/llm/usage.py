"""Usage of calls: per call, total per client, and estimates before any.

The estimates are rules of thumb for the tokens of a call, by which a run is estimated before it starts.

They fit a 1024-pixel image, a detailed caption, and rubrics, checklists and assertions of the papers' kinds.
"""

import threading
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from rubricworks.llm.endpoint import Endpoint
from rubricworks.rubrics import ErrorClass


class Usage(NamedTuple):
    """Tokens and dollars of one call, including repair turns."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    cached_tokens: int = 0
    """Prompt tokens that the provider had cached, of `prompt_tokens`; `cost` has them at their price."""
    estimated: bool = False
    """True if the server did not report some of the tokens, and they were estimated."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost + other.cost,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
        )


@dataclass
class Totals:
    """Totals of a client. A cached answer counts as a call without cost."""

    calls: int = 0
    cached: int = 0
    requests: int = 0
    """Requests sent, including retries and repair turns."""
    errors: dict[ErrorClass, int] = field(default_factory=dict)
    """Failed calls by error class."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    """Duration summed over calls, including waiting for the limiter; calls overlap, so it exceeds wall-clock time."""
    cached_tokens: int = 0
    """Prompt tokens that the provider had cached, of `prompt_tokens`."""
    estimated: int = 0
    """Number of calls whose tokens the server did not fully report, so that some are estimates."""
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
            self.cached_tokens += usage.cached_tokens
            self.estimated += usage.estimated
            if error is not None:
                self.errors[error] = self.errors.get(error, 0) + 1

    def add(self, other: "Totals") -> None:
        """Add the totals of another client."""
        figures = other.as_dict()
        with self._lock:
            for kind, count in figures.pop("errors").items():
                self.errors[ErrorClass(kind)] = self.errors.get(ErrorClass(kind), 0) + count
            for name, value in figures.items():
                setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, Any]:
        """Totals as a JSON-serialisable dict."""
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
                "cached_tokens": self.cached_tokens,
                "estimated": self.estimated,
            }


CAPTION_TOKENS = 300
TOKENS_PER_CRITERION = 60
CRITERIA_PER_RUBRIC = 8
GRADING_IN = 500 + CAPTION_TOKENS + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
GRADING_OUT = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION
"""Tokens of one call that grades a caption by all criteria of its rubric."""
CRITERION_IN = GRADING_IN - (CRITERIA_PER_RUBRIC - 1) * TOKENS_PER_CRITERION
"""Tokens of one call that grades a caption by one criterion."""
READING_IN = 600 + CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION // 2
READING_OUT = CRITERIA_PER_RUBRIC * TOKENS_PER_CRITERION // 2
"""Tokens of one call that reads what the criteria of a rubric ask for."""
GUIDE_TOKENS = 900
"""Tokens of long instructions: principles, fields and examples."""
COMPARISON_IN = 500 + 2 * CAPTION_TOKENS
COMPARISON_OUT = 150
"""Tokens of one pairwise comparison of captions, without its image."""
ASSERTION_TOKENS = 40
"""Tokens of one assertion as JSON, with its reason."""
ASSERTIONS_PER_CAPTION = 25
QUESTIONS_PER_EXAM = 5
EXAM_TOKENS = 600


@dataclass(frozen=True)
class PlannedCalls:
    """Calls of one kind that a run will make."""

    purpose: str
    endpoint: Endpoint
    count: int
    tokens_in: int
    """Tokens per call, as `tokens_out`."""
    tokens_out: int


class GradingCalls(NamedTuple):
    """Calls of a judge, with the tokens of each."""

    calls: int
    tokens_in: int
    tokens_out: int


def grading_calls(responses: int, call_per: Literal["response", "criterion"]) -> GradingCalls:
    """Calls that grade responses by their rubrics, one per response or one per criterion."""
    if call_per == "response":
        return GradingCalls(responses, GRADING_IN, GRADING_OUT)
    return GradingCalls(responses * CRITERIA_PER_RUBRIC, CRITERION_IN, TOKENS_PER_CRITERION)
