"""What grading says of a response: one verdict per criterion, each a credit or an error, never both.

A judge that failed leaves an error, not a number, so that an outage can never train a policy.
"""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ErrorClass(StrEnum):
    """Why something could not be judged."""

    TRANSPORT = "transport"
    """The endpoint did not answer, or answered with an HTTP error."""
    REFUSED = "refused"
    """The model declined to answer."""
    MALFORMED = "malformed"
    """The answer did not fit its schema, also after repair turns."""
    TRUNCATED = "truncated"
    """The answer ran into the token limit."""
    UNVERIFIABLE = "unverifiable"
    """The verifier could not read its target, or ran out of time on it."""
    BUDGET = "budget"
    """The run's cap on tokens or money was reached."""


class Verdict(BaseModel):
    """What grading says of one criterion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    """The criterion's title, verbatim."""
    credit: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    error: ErrorClass | None = None
    reasoning: str = ""
    """The judge's reasons, or the error's message."""
    call: str = ""
    """What the extractor found, as a verifier's call; empty where a judge gave the credit."""
    votes: tuple[float | None, ...] = ()
    """What each of several judges gave, in their order; None where one failed. Empty with a single judge."""

    @model_validator(mode="after")
    def _credit_or_error(self) -> Self:
        if (self.credit is None) == (self.error is None):
            raise ValueError(f"verdict on {self.criterion!r}: give either a credit or an error")
        return self


class Scorecard(BaseModel):
    """The verdicts of one response, in the order of its rubric's criteria."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    response: str
    judge: str
    """The model that graded; several are joined by ` + `."""
    verdicts: tuple[Verdict, ...] = Field(min_length=1)
    raw: tuple[str, ...] = ()
    """What the judges answered, word for word: one text per call, judge by judge; empty where a call failed."""

    @property
    def credits(self) -> list[float | None]:
        """One credit per criterion; None where it could not be judged."""
        return [verdict.credit for verdict in self.verdicts]

    @property
    def complete(self) -> bool:
        """Whether every criterion was judged."""
        return all(verdict.error is None for verdict in self.verdicts)
