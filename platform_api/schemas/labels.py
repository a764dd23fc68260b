"""Labels and preferences of people over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.metrics import Interval

Choice = Literal["first", "second", "equal"]


class LabelRequest(BaseModel):
    """A person's credits for the criteria of a response."""

    model_config = ConfigDict(extra="forbid")

    step: int = Field(ge=0, lt=1 << 31)
    sample_id: str = Field(min_length=1, max_length=200)
    response: str = Field(max_length=100_000, description="The text, or an image's digest")
    credits: dict[str, float] = Field(min_length=1, max_length=200, description="Criterion → credit from 0 to 1")


class LabelBody(BaseModel):
    """A person's credit for one criterion on one response."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    step: int | None
    sample_id: str
    response: str
    criterion: str
    credit: float
    rater: str
    at: datetime


class LabelPage(BaseModel):
    """A page of labels, the newest first."""

    items: list[LabelBody]
    next_cursor: str | None


class ImportResult(BaseModel):
    """Rows that a file brought."""

    stored: int


class PreferenceRequest(BaseModel):
    """A choice between two models' responses."""

    model_config = ConfigDict(extra="forbid")

    first: str = Field(min_length=1, max_length=200, examples=["base"])
    second: str = Field(min_length=1, max_length=200, examples=["policy"])
    sample_id: str = Field(min_length=1, max_length=200)
    choice: Choice


class PreferenceBody(BaseModel):
    """A person's choice."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    first: str
    second: str
    sample_id: str
    choice: Choice
    rater: str
    at: datetime


class PreferencePage(BaseModel):
    """A page of choices, the newest first."""

    items: list[PreferenceBody]
    next_cursor: str | None


class StandingBody(BaseModel):
    """Result of two models."""

    first: str
    second: str
    share: Interval | None = Field(description="Share of the samples on which the first is preferred")
    wins: int
    equal: int
    losses: int
    raters: int


class ComparableModels(BaseModel):
    """Models whose responses can be compared, and the results so far."""

    models: dict[str, int] = Field(description="Model → responses")
    standings: list[StandingBody]
