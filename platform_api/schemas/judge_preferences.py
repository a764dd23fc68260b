"""Choices between two judges' verdicts over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.metrics import Interval

JudgeChoice = Literal["first", "second", "both", "neither"]


class ComparableJudges(BaseModel):
    """Judges whose verdicts can be compared."""

    judges: dict[str, int] = Field(
        description="`JUDGE in RUN/STAGE` → responses", examples=[{"judge-1 in today-1/score": 256}]
    )


class JudgePreferenceRequest(BaseModel):
    """Choices between two judges' verdicts on one response."""

    model_config = ConfigDict(extra="forbid")

    first: str = Field(min_length=1, max_length=300, examples=["judge-1 in today-1/score"])
    second: str = Field(min_length=1, max_length=300, examples=["judge-1 in later-2/score"])
    sample_id: str = Field(min_length=1, max_length=200, examples=["2b71b300c10aae76"])
    response: str = Field(
        max_length=100_000,
        description="The text, or an image's digest",
        examples=["A red star stands left of a blue circle."],
    )
    choices: dict[str, JudgeChoice] = Field(
        min_length=1,
        max_length=200,
        description="Criterion → whose verdict on it is right; an empty criterion stands for the whole scorecard",
        examples=[{"Names the red star": "first"}],
    )


class JudgePreferenceBody(BaseModel):
    """A person's choice."""

    model_config = ConfigDict(from_attributes=True)

    id: int = Field(examples=[7])
    first: str = Field(examples=["judge-1 in today-1/score"])
    second: str = Field(examples=["judge-1 in later-2/score"])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    response: str = Field(examples=["A red star stands left of a blue circle."])
    criterion: str = Field(description="Empty for the whole scorecard", examples=["Names the red star"])
    choice: JudgeChoice
    rater: str = Field(examples=["ada"])
    at: datetime


class JudgePreferencePage(BaseModel):
    """A page of choices, the newest first."""

    items: list[JudgePreferenceBody]
    next_cursor: str | None


class ChoiceCounts(BaseModel):
    """Choices of one kind between two judges."""

    model_config = ConfigDict(from_attributes=True)

    share: Interval | None = Field(description="Share for the first; those for both or neither count one half")
    wins: int = Field(examples=[8])
    equal: int = Field(description="For both, or for neither", examples=[4])
    losses: int = Field(examples=[28])
    raters: int = Field(examples=[2])


class JudgeStandingResult(BaseModel):
    """People's choices between two judges, and each judge's agreement with people's labels."""

    model_config = ConfigDict(from_attributes=True)

    criteria: ChoiceCounts
    scorecards: ChoiceCounts
    neither: int = Field(description="Of all choices, those in which neither verdict is right", examples=[1])
    labelled: int = Field(description="Criteria that people labelled and both judged", examples=[24])
    first_agrees: Interval | None = Field(description="Share of those on which the first judge gives people's credit")
    second_agrees: Interval | None


class JudgeStandingBody(BaseModel):
    """Result of two judges, once it can sway the caller no more."""

    first: str = Field(examples=["judge-1 in today-1/score"])
    second: str = Field(examples=["judge-1 in later-2/score"])
    mine: int = Field(description="The caller's own choices", examples=[24])
    needed: int = Field(description="Own choices from which the result is told without `reveal`", examples=[20])
    result: JudgeStandingResult | None
