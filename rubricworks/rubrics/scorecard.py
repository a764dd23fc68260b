"""Scorecard of a response: one verdict per criterion, each a credit or an error, never both.

A failed judge gives an error, not a number, so that an outage never trains a policy.
"""

from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rubricworks.rubrics.response import Response


class ErrorClass(StrEnum):
    """Reason for a call or criterion without a result."""

    TRANSPORT = "transport"
    """The endpoint did not answer, answered with an error, or ended its answer early."""
    REFUSED = "refused"
    """The model, or a content filter before or after it, declined to answer."""
    MALFORMED = "malformed"
    """The answer did not match its schema, even after repair turns."""
    TRUNCATED = "truncated"
    """The answer ran into a limit of tokens, its own or the model's."""
    UNVERIFIABLE = "unverifiable"
    """The verifier could not parse its target, or timed out on it."""
    BUDGET = "budget"
    """The run's cap on tokens or money was reached."""
    RAISED = "raised"
    """A user's own function raised an exception."""
    UNREADABLE = "unreadable"
    """The response, or the sample's image that the judge is to see, is no image that can be read."""


class Verdict(BaseModel):
    """Credit or error of one criterion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    """The criterion's title, verbatim."""
    credit: float | None = Field(default=None, ge=0, le=1, allow_inf_nan=False)
    error: ErrorClass | None = None
    reasoning: str = ""
    """The judge's reasoning, or the error message."""
    call: str = ""
    """The extractor's verifier call; empty if a judge gave the credit."""
    votes: tuple[float | None, ...] = ()
    """Credits of several judges in order, or of repeated draws of one judge; None for a judge that failed. Else
    empty.
    """
    confidence: float | None = Field(default=None, ge=0, le=1, exclude_if=lambda confidence: confidence is None)
    """The share of draws or the probability that the judge gave its score; None if not requested."""

    @model_validator(mode="after")
    def _credit_or_error(self) -> Self:
        if (self.credit is None) == (self.error is None):
            raise ValueError(f"verdict on {self.criterion!r}: give either a credit or an error")
        return self


class Scorecard(BaseModel):
    """Verdicts of one response, in the order of its rubric's criteria."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sample_id: str
    response: Response
    """A `str` is taken as a text."""
    judge: str
    """Name of the grading model; several are joined by ` + `."""
    verdicts: tuple[Verdict, ...] = Field(min_length=1)
    raw: tuple[str, ...] = ()
    """Unparsed answers of the judges: one text per call, judge by judge; empty if a call failed."""

    @property
    def credits(self) -> list[float | None]:
        """One credit per criterion, None for an error."""
        return [verdict.credit for verdict in self.verdicts]

    @property
    def complete(self) -> bool:
        """True if every criterion was judged."""
        return all(verdict.error is None for verdict in self.verdicts)
