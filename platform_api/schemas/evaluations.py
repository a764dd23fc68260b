"""Scores, leaderboards, signals of reward hacking and audits over HTTP."""

from datetime import datetime
from typing import Self

from pydantic import Field

from rubricworks.evaluation.leaderboard import Leaderboard
from rubricworks.platform_api.schemas.bodies import Body
from rubricworks.reports.judge_audit_cases import BadCase, MisjudgedCriterion


class EvaluationBody(Body):
    """A run's table of scores."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["score"])
    scores: int = Field(examples=[1536])
    modified: datetime


class ScoreBody(Body):
    """One scorer's value of one response, or of a corpus."""

    sample_id: str | None = Field(description="None if the row scores a corpus", examples=["2b71b300c10aae76"])
    model: str = Field(examples=["policy"])
    revision: str = Field(examples=["3f5a9c"])
    step: int | None = Field(description="Step of a training's milestone", examples=[120])
    decoding: str = Field(examples=["greedy"])
    against: str | None = Field(description="Model of the opponent")
    scorer: str = Field(examples=["oracle"])
    version: str = Field(examples=["1"])
    judge: str = Field(examples=["judge@1"])
    part: str = Field(examples=["f1"])
    value: float | None = Field(description="None if the response could not be judged", examples=[0.8])
    reason: str | None = Field(description="Reason for having no value")


class BoardBody(Body):
    """A leaderboard with the runs that it is made of."""

    runs: list[str] = Field(examples=[["quickstart-20261123-020900"]])
    simulated: bool = Field(examples=[True])
    board: Leaderboard | None


class TraceBody(Body):
    """The loss that the alarm weighs, or a statistic that it sees, at each of its looks."""

    name: str = Field(examples=["specificity"])
    words: str = Field(examples=["likeness to responses to the same image"])
    points: list[tuple[int, float]] = Field(
        description="Step, and the mean since the look before", examples=[[[10, 0.52], [20, 0.31]]]
    )
    start: float = Field(description="Mean at the first look", examples=[0.52])
    high: float | None = Field(description="Limit of the alarm, for its loss", examples=[None])
    crossed: int | None = Field(description="First step beyond it", examples=[None])


class MeasureBody(Body):
    """A score that training does not see."""

    scorer: str = Field(examples=["oracle"])
    part: str = Field(examples=["f1"])
    points: list[tuple[int, float]] = Field(
        description="Step of the training, and the mean score", examples=[[[40, 0.62], [80, 0.55]]]
    )


class FiredAlarm(Body):
    """The alarm, which fired."""

    step: int = Field(ge=0, le=2**53, examples=[80])
    reasons: list[str] = Field(default=[], examples=[["the held-out judge fell from 0.62 to 0.41"]])
    onset: int | None = Field(
        default=None, ge=0, le=2**53, description="Last step at which the policy was at its best", examples=[40]
    )


class SignalsBody(Body):
    """Reward of a training, and the figures that watch it."""

    rewards: list[tuple[int, float]] = Field(examples=[[[40, 0.61], [80, 0.83]]])
    held_out: list[tuple[int, float]] = Field(
        description="Scores of the held-out judge", examples=[[[40, 0.6], [80, 0.52]]]
    )
    measure: MeasureBody | None
    every: int = Field(description="Steps between two looks of the alarm", examples=[10])
    least_steps: int = Field(description="Number of steps before which the alarm cannot fire", examples=[30])
    traces: list[TraceBody]
    alarm: FiredAlarm | None


class AuditBody(Body):
    """An audit of a run."""

    stage: str = Field(examples=["audit"])
    rows: int = Field(examples=[480])


class MisjudgedBody(Body):
    """A criterion that was credited, and did not deserve it."""

    criterion: str = Field(examples=["Names the red star"])
    weight: float = Field(examples=[3.0])
    essential: bool = Field(examples=[True])
    deserved: float | None = Field(description="Credit that the response deserves", examples=[0.0])
    settings: dict[str, float] = Field(
        description="Setting of the judge → the credit that it gave", examples=[{"no reference": 1.0}]
    )
    reasoning: str | None = Field(examples=["The caption says that the star is red."])

    @classmethod
    def of(cls, misjudged: MisjudgedCriterion) -> Self:
        """Body of a criterion."""
        return cls(
            criterion=misjudged.criterion.criterion,
            weight=misjudged.criterion.weight,
            essential=misjudged.criterion.essential,
            deserved=misjudged.annotation.credit,
            settings={
                setting: credit.verdict.credit
                for credit in misjudged.credits
                for setting in credit.settings
                if credit.verdict.credit is not None
            },
            reasoning=misjudged.credits[0].verdict.reasoning if misjudged.credits else None,
        )


class AuditCaseBody(Body):
    """A response with undeserved credit."""

    sample_id: str = Field(examples=["2b71b300c10aae76"])
    mode: str = Field(description="Failure mode", examples=["fabricated"])
    attack: str = Field(examples=["asserts the criterion"])
    question: str = Field(examples=["Describe the picture."])
    response: str = Field(examples=["Certainly, the red star is named."])
    criteria: list[MisjudgedBody]

    @classmethod
    def of(cls, case: BadCase) -> Self:
        """Body of a case."""
        return cls(
            sample_id=case.sample_id,
            mode=case.mode,
            attack=case.attack,
            question=case.question,
            response=case.response,
            criteria=[MisjudgedBody.of(criterion) for criterion in case.criteria],
        )
