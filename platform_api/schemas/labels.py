"""Labels and preferences of people over HTTP."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.metrics import Interval

Choice = Literal["first", "second", "equal"]


class LabelRequest(BaseModel):
    """A person's credits for the criteria of a response."""

    model_config = ConfigDict(extra="forbid")

    step: int = Field(ge=0, lt=1 << 31, examples=[40])
    sample_id: str = Field(min_length=1, max_length=200, examples=["2b71b300c10aae76"])
    response: str = Field(
        max_length=100_000,
        description="The text, or an image's digest",
        examples=["A red star stands left of a blue circle."],
    )
    credits: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        min_length=1,
        max_length=200,
        description="Criterion → credit from 0 to 1",
        examples=[{"Names the red star": 1.0, "Places the star left of the blue circle": 0.5}],
    )


class LabelBody(BaseModel):
    """A person's credit for one criterion on one response."""

    model_config = ConfigDict(from_attributes=True)

    id: int = Field(examples=[7])
    step: int | None = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    response: str = Field(examples=["A red star stands left of a blue circle."])
    criterion: str = Field(examples=["Names the red star"])
    credit: float = Field(examples=[1.0])
    rater: str = Field(examples=["ada"])
    at: datetime


class LabelPage(BaseModel):
    """A page of labels, the newest first."""

    items: list[LabelBody]
    next_cursor: str | None


class ImportResult(BaseModel):
    """Rows that a file brought."""

    stored: int = Field(examples=[24])


class PreferenceRequest(BaseModel):
    """A choice between two models' responses."""

    model_config = ConfigDict(extra="forbid")

    first: str = Field(min_length=1, max_length=200, examples=["base"])
    second: str = Field(min_length=1, max_length=200, examples=["policy"])
    sample_id: str = Field(min_length=1, max_length=200, examples=["2b71b300c10aae76"])
    choice: Choice


class PreferenceBody(BaseModel):
    """A person's choice."""

    model_config = ConfigDict(from_attributes=True)

    id: int = Field(examples=[7])
    first: str = Field(examples=["base"])
    second: str = Field(examples=["policy"])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    choice: Choice
    rater: str = Field(examples=["ada"])
    at: datetime


class PreferencePage(BaseModel):
    """A page of choices, the newest first."""

    items: list[PreferenceBody]
    next_cursor: str | None


class StandingBody(BaseModel):
    """Result of two models."""

    first: str = Field(examples=["base"])
    second: str = Field(examples=["policy"])
    share: Interval | None = Field(
        description="Share of the samples on which the first is preferred",
        examples=[{"value": 0.25, "low": 0.1, "high": 0.4}],
    )
    wins: int = Field(examples=[8])
    equal: int = Field(examples=[4])
    losses: int = Field(examples=[28])
    raters: int = Field(examples=[2])


class ComparableModels(BaseModel):
    """Models whose responses can be compared, and the results so far."""

    models: dict[str, int] = Field(description="Model → responses", examples=[{"base": 256, "policy": 256}])
    standings: list[StandingBody]
