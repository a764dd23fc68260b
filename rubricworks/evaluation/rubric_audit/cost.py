"""Cost of an audit: the calls of its judge, or of the writer of its rewrites, with their tokens, dollars and time."""

from typing import Self

from pydantic import BaseModel, ConfigDict

from rubricworks.llm import ChatClient


class AuditCost(BaseModel):
    """What one model was asked for an audit, and what it took. Answers of the cache take nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: int
    """Calls, those that failed and those that the cache answered among them."""
    cached: int
    """Calls that the cache answered."""
    prompt_tokens: int
    cached_tokens: int
    """Of the prompt tokens, those that the provider had cached."""
    completion_tokens: int
    dollars: float | None
    """None where the endpoint has no prices."""
    seconds: float
    """Time by the clock."""

    @classmethod
    def of(cls, client: ChatClient, seconds: float) -> Self:
        """Cost of all calls of a client so far.

        Args:
            seconds: time by the clock that they took together.
        """
        totals, endpoint = client.totals, client.endpoint
        return cls(
            calls=totals.calls,
            cached=totals.cached,
            prompt_tokens=totals.prompt_tokens,
            cached_tokens=totals.cached_tokens,
            completion_tokens=totals.completion_tokens,
            dollars=totals.cost if endpoint.is_priced else None,
            seconds=round(seconds, 3),
        )
