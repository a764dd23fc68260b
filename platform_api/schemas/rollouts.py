"""Rollouts, verdicts and criteria over HTTP."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class GroupBody(BaseModel):
    """The rollouts of one sample in one step."""

    model_config = ConfigDict(from_attributes=True)

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    rollouts: int = Field(examples=[8])
    unjudged: int = Field(description="Rollouts without a reward", examples=[1])
    mean: float | None = Field(description="Mean reward of those that were judged", examples=[0.62])
    lowest: float | None = Field(examples=[0.25])
    highest: float | None = Field(examples=[1.0])


class GroupPage(BaseModel):
    """A page of groups."""

    items: list[GroupBody]
    next_cursor: str | None


class VerdictBody(BaseModel):
    """The verdict on one criterion: a credit or an error."""

    criterion: str = Field(examples=["Names the red star"])
    credit: float | None = Field(examples=[1.0])
    error: str | None = None
    reasoning: str | None = None


class RolloutBody(BaseModel):
    """A response with its reward and its verdicts."""

    response: str = Field(
        description="The text, or the digest of the image", examples=["A red star stands left of a blue circle."]
    )
    response_type: str | None = Field(description="Media type of an image; null for a text")
    tokens: int = Field(examples=[11])
    reward: float | None = Field(examples=[1.0])
    advantage: float | None = Field(examples=[0.7])
    judge: str | None = Field(examples=["judge@1"])
    verdicts: list[VerdictBody]
    raw: list[str] = Field(description="The judge's own words", examples=[['{"verdicts": [true]}']])


class GroupDetail(BaseModel):
    """A group with its rollouts, the highest reward first."""

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    rollouts: list[RolloutBody]


class PartBody(BaseModel):
    """A part of a message: a text, or an image in place of its bytes."""

    model_config = ConfigDict(from_attributes=True)

    text: str = Field(examples=["Grade the caption by each criterion."])
    image: Literal["sample", "response", "other"] | None = Field(
        description="Image that is sent: the sample's, the response itself, or one made from it; null for a text"
    )


class MessageBody(BaseModel):
    """A message of a request."""

    model_config = ConfigDict(from_attributes=True)

    role: str = Field(examples=["user"])
    parts: list[PartBody]


class CallBody(BaseModel):
    """One call of a judge: the request and the answer."""

    model_config = ConfigDict(from_attributes=True)

    judge: str = Field(examples=["judge@1"])
    prompt_version: str = Field(examples=["rubric-verdicts/2"])
    origin: Literal["call cache", "dead letter", "reconstructed"] = Field(
        description="What tells that the run sent this request; `reconstructed` if nothing does"
    )
    digest: str = Field(description="Digest of the request", examples=["9f86d081884c7d65"])
    options: dict[str, Any] = Field(
        description="Fields of the request but for the messages, without secrets", examples=[{"temperature": 0.0}]
    )
    messages: list[MessageBody]
    answer: str = Field(
        description="The judge's own words; empty if the call failed", examples=['{"verdicts": [true]}']
    )


class ExchangeBody(BaseModel):
    """Raw exchange about a response."""

    model_config = ConfigDict(from_attributes=True)

    calls: list[CallBody]
    answers: list[str] = Field(
        description="Answers whose requests could not be made again", examples=[['{"verdicts": [true]}']]
    )
    problem: str = Field(description="Reason for that", examples=["the call cache is not there any more"])


class CriterionBody(BaseModel):
    """One criterion's credits over a training."""

    model_config = ConfigDict(from_attributes=True)

    criterion: str = Field(examples=["Names the red star"])
    graded: int = Field(examples=[960])
    pass_rate: float = Field(description="Mean credit", examples=[0.71])
    variance: float = Field(examples=[0.2])
    first: float = Field(description="Mean credit up to the first checkpoint that has the criterion", examples=[0.4])
    last: float = Field(description="Mean credit after the last but one", examples=[0.9])
    state: Literal["always", "never", "varies"] = Field(description="Always and never met criteria give no gradient")


class CriterionPage(BaseModel):
    """A page of a training's criteria, those that are always or never met first."""

    items: list[CriterionBody]
    next_cursor: str | None


class FlipBody(BaseModel):
    """A group whose rollouts differ on a criterion."""

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    credit: float = Field(examples=[0.5])


class FlipPage(BaseModel):
    """A page of groups that differ on a criterion."""

    items: list[FlipBody]
    next_cursor: str | None
