"""Rollouts, verdicts and criteria over HTTP."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class GroupBody(BaseModel):
    """The rollouts of one sample in one step."""

    model_config = ConfigDict(from_attributes=True)

    step: int
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    rollouts: int
    unjudged: int = Field(description="Rollouts without a reward")
    mean: float | None = Field(description="Mean reward of those that were judged")
    lowest: float | None
    highest: float | None


class GroupPage(BaseModel):
    """A page of groups."""

    items: list[GroupBody]
    next_cursor: str | None


class VerdictBody(BaseModel):
    """The verdict on one criterion: a credit or an error."""

    criterion: str
    credit: float | None
    error: str | None = None
    reasoning: str | None = None


class RolloutBody(BaseModel):
    """A response with its reward and its verdicts."""

    response: str = Field(description="The text, or the digest of the image")
    response_type: str | None = Field(description="Media type of an image; null for a text")
    tokens: int
    reward: float | None
    advantage: float | None
    judge: str | None
    verdicts: list[VerdictBody]
    raw: list[str] = Field(description="The judge's own words")


class GroupDetail(BaseModel):
    """A group with its rollouts, the highest reward first."""

    step: int
    sample_id: str
    rollouts: list[RolloutBody]


class PartBody(BaseModel):
    """A part of a message: a text, or an image in place of its bytes."""

    model_config = ConfigDict(from_attributes=True)

    text: str
    image: Literal["sample", "response", "other"] | None = Field(
        description="Image that is sent: the sample's, the response itself, or one made from it; null for a text"
    )


class MessageBody(BaseModel):
    """A message of a request."""

    model_config = ConfigDict(from_attributes=True)

    role: str
    parts: list[PartBody]


class CallBody(BaseModel):
    """One call of a judge: the request and the answer."""

    model_config = ConfigDict(from_attributes=True)

    judge: str
    prompt_version: str
    origin: Literal["call cache", "dead letter", "reconstructed"] = Field(
        description="What tells that the run sent this request; `reconstructed` if nothing does"
    )
    digest: str = Field(description="Digest of the request")
    options: dict[str, Any] = Field(description="Fields of the request but for the messages, without secrets")
    messages: list[MessageBody]
    answer: str = Field(description="The judge's own words; empty if the call failed")


class ExchangeBody(BaseModel):
    """Raw exchange about a response."""

    model_config = ConfigDict(from_attributes=True)

    calls: list[CallBody]
    answers: list[str] = Field(description="Answers whose requests could not be made again")
    problem: str = Field(description="Reason for that")


class CriterionBody(BaseModel):
    """One criterion's credits over a training."""

    model_config = ConfigDict(from_attributes=True)

    criterion: str
    graded: int
    pass_rate: float = Field(description="Mean credit")
    variance: float
    first: float = Field(description="Mean credit up to the first checkpoint that has the criterion")
    last: float = Field(description="Mean credit after the last but one")
    state: Literal["always", "never", "varies"] = Field(description="Always and never met criteria give no gradient")


class CriterionPage(BaseModel):
    """A page of a training's criteria, those that are always or never met first."""

    items: list[CriterionBody]
    next_cursor: str | None


class FlipBody(BaseModel):
    """A group whose rollouts differ on a criterion."""

    step: int
    sample_id: str
    credit: float
