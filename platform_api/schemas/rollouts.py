"""Rollouts, verdicts, criteria and exchanges with judges over HTTP."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.platform_api.schemas.bodies import Body, JsonObject, Page

Origin = Literal["call cache", "dead letter", "reconstructed"]
Shown = Literal["sample", "response", "other"]


class GroupBody(Body):
    """The rollouts of one sample in one step."""

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    rollouts: int = Field(examples=[8])
    unjudged: int = Field(description="Rollouts without a reward", examples=[1])
    mean: float | None = Field(description="Mean reward of those that were judged", examples=[0.62])
    lowest: float | None = Field(examples=[0.25])
    highest: float | None = Field(examples=[1.0])


class VerdictBody(Body):
    """The verdict on one criterion: a credit or an error."""

    criterion: str = Field(examples=["Names the red star"])
    credit: float | None = Field(examples=[1.0])
    error: str | None = None
    reasoning: str | None = None


class StoredVerdict(VerdictBody):
    """A verdict as a stage stored it."""

    model_config = ConfigDict(allow_inf_nan=False)


class StoredCard(BaseModel, extra="ignore"):
    """Fields of a stored scorecard that pages show."""

    judge: str | None = None
    verdicts: list[StoredVerdict] = []
    raw: list[str] = []


class RolloutBody(Body):
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


class GroupDetail(Body):
    """A group with its rollouts, the highest reward first."""

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    rollouts: list[RolloutBody]


class RolloutRowBody(Body):
    """A rollout in a list."""

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    response: str = Field(
        description="The text, or the digest of the image; empty while its file is being replaced",
        examples=["A red star stands left of a blue circle."],
    )
    response_type: str | None = Field(description="Media type of an image; null for a text")
    digest: str = Field(
        description="First 16 digits of the response's SHA-256, by which its group's page shows it",
        examples=["9f86d081884c7d65"],
    )
    tokens: int = Field(examples=[11])
    reward: float | None = Field(examples=[1.0])
    advantage: float | None = Field(examples=[0.7])
    credit: float | None = Field(description="Credit of the criterion that the list was asked for", examples=[0.0])


class RolloutPage(Page[RolloutRowBody]):
    """A page of rollouts. A search for a rare criterion may end early: a page with few rows may have a next one."""

    is_cut: bool = Field(
        description="More responses hold the text than a search takes: these are of the first of them", examples=[False]
    )


class PartBody(Body):
    """A part of a message: a text, or an image in place of its bytes."""

    text: str = Field(examples=["Grade the caption by each criterion."])
    image: Shown | None = Field(
        description="Image that is sent: the sample's, the response itself, or one made from it; null for a text"
    )


class MessageBody(Body):
    """A message of a request."""

    role: str = Field(examples=["user"])
    parts: list[PartBody]


class CallBody(Body):
    """One call of a judge: the request and the answer."""

    judge: str = Field(examples=["judge@1"])
    prompt_version: str = Field(examples=["rubric-verdicts/2"])
    origin: Origin = Field(description="What tells that the run sent this request; `reconstructed` if nothing does")
    digest: str = Field(description="Digest of the request", examples=["9f86d081884c7d65"])
    options: JsonObject = Field(
        description="Fields of the request but for the messages, without secrets", examples=[{"temperature": 0.0}]
    )
    messages: list[MessageBody]
    answer: str = Field(
        description="The judge's own words; empty if the call failed", examples=['{"verdicts": [true]}']
    )


class ExchangeBody(Body):
    """Raw exchange about a response."""

    calls: list[CallBody]
    answers: list[str] = Field(
        description="Answers whose requests could not be made again", examples=[['{"verdicts": [true]}']]
    )
    problem: str = Field(description="Reason for that", examples=["the call cache is not there any more"])


class CriterionBody(Body):
    """One criterion's credits over a training."""

    criterion: str = Field(examples=["Names the red star"])
    graded: int = Field(examples=[960])
    pass_rate: float = Field(description="Mean credit", examples=[0.71])
    variance: float = Field(examples=[0.2])
    first: float | None = Field(
        description="Mean credit in the first 10 steps (half of a shorter run); null if ungraded", examples=[0.4]
    )
    last: float | None = Field(
        description="Mean credit in the last 10 steps (half of a shorter run); null if ungraded", examples=[0.9]
    )
    state: Literal["always", "never", "varies"] = Field(description="Always and never met criteria give no gradient")


class FlipBody(Body):
    """A group whose rollouts differ on a criterion."""

    step: int = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    credit: float = Field(examples=[0.5])
