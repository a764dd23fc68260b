"""Labels, choices between two models or two judges, and their standings over HTTP."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from rubricworks.metrics import Interval
from rubricworks.platform_api.schemas.bodies import Body, RequestBody

Choice = Literal["first", "second", "equal"]


class LabelRequest(RequestBody):
    """A person's credits for the criteria of a response."""

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


class LabelBody(Body):
    """A person's credit for one criterion on one response."""

    id: int = Field(examples=[7])
    step: int | None = Field(examples=[40])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    response: str = Field(examples=["A red star stands left of a blue circle."])
    criterion: str = Field(examples=["Names the red star"])
    credit: float = Field(examples=[1.0])
    rater: str = Field(examples=["ada"])
    at: datetime


class ImportResult(Body):
    """Rows that a file brought."""

    stored: int = Field(examples=[24])


class PreferenceRequest(RequestBody):
    """A choice between two models' responses."""

    first: str = Field(min_length=1, max_length=200, examples=["base"])
    second: str = Field(min_length=1, max_length=200, examples=["policy"])
    sample_id: str = Field(min_length=1, max_length=200, examples=["2b71b300c10aae76"])
    choice: Choice


class PreferenceBody(Body):
    """A person's choice."""

    id: int = Field(examples=[7])
    first: str = Field(examples=["base"])
    second: str = Field(examples=["policy"])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    choice: Choice
    rater: str = Field(examples=["ada"])
    at: datetime


class ChoiceCounts(Body):
    """Choices between two sides."""

    share: Interval | None = Field(
        description="Share of the choices for the first; those for neither side alone count one half",
        examples=[{"value": 0.25, "low": 0.1, "high": 0.4}],
    )
    wins: int = Field(examples=[8])
    equal: int = Field(description="For both sides, or for neither", examples=[4])
    losses: int = Field(examples=[28])
    raters: int = Field(examples=[2])


class StandingBody(ChoiceCounts):
    """Result of two models."""

    first: str = Field(examples=["base"])
    second: str = Field(examples=["policy"])


class ComparableModels(Body):
    """Models whose responses can be compared, and the results so far."""

    models: dict[str, int] = Field(description="Model → responses", examples=[{"base": 256, "policy": 256}])
    standings: list[StandingBody]


JudgeChoice = Literal["first", "second", "both", "neither"]


class ComparableJudges(Body):
    """Judges whose verdicts can be compared."""

    judges: dict[str, int] = Field(
        description="`JUDGE in RUN/STAGE` → responses", examples=[{"judge-1 in today-1/score": 256}]
    )


class JudgePreferenceRequest(RequestBody):
    """Choices between two judges' verdicts on one response."""

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


class JudgePreferenceBody(Body):
    """A person's choice."""

    id: int = Field(examples=[7])
    first: str = Field(examples=["judge-1 in today-1/score"])
    second: str = Field(examples=["judge-1 in later-2/score"])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    response: str = Field(examples=["A red star stands left of a blue circle."])
    criterion: str = Field(description="Empty for the whole scorecard", examples=["Names the red star"])
    choice: JudgeChoice
    rater: str = Field(examples=["ada"])
    at: datetime


class JudgeStandingResult(Body):
    """People's choices between two judges, and each judge's agreement with people's labels."""

    criteria: ChoiceCounts
    scorecards: ChoiceCounts
    neither: int = Field(description="Of all choices, those in which neither verdict is right", examples=[1])
    labelled: int = Field(description="Criteria that people labelled and both judged", examples=[24])
    first_agrees: Interval | None = Field(description="Share of those on which the first judge gives people's credit")
    second_agrees: Interval | None


class JudgeStandingBody(Body):
    """Result of two judges, once it can sway the caller no more."""

    first: str = Field(examples=["judge-1 in today-1/score"])
    second: str = Field(examples=["judge-1 in later-2/score"])
    mine: int = Field(description="The caller's own choices", examples=[24])
    needed: int = Field(description="Own choices from which the result is told without `reveal`", examples=[20])
    result: JudgeStandingResult | None
