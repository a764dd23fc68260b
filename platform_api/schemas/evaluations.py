"""Scores, leaderboards, signals of reward hacking and audits over HTTP."""

from datetime import datetime
from typing import Self

from pydantic import Field

from rubricworks.evaluation.leaderboard import Leaderboard
from rubricworks.platform_api.schemas.bodies import Body
from rubricworks.reports.judge_audit_cases import BadCase, MisjudgedCriterion
from rubricworks.training.config import AlarmConfig


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
    """One statistic that the alarm watches."""

    name: str = Field(examples=["objects"])
    words: str = Field(examples=["objects named per caption"])
    points: list[tuple[int, float]] = Field(
        description="Step, and the mean over the window that ends there", examples=[[[40, 2.1], [80, 4.6]]]
    )
    start: float = Field(description="Mean over the first window", examples=[2.1])
    low: float | None = Field(description="Limit below which it is suspicious")
    high: float | None = Field(description="Limit above which it is suspicious", examples=[4.2])
    crossed: int | None = Field(description="First step beyond a limit", examples=[80])


class MeasureBody(Body):
    """A score that training does not see."""

    scorer: str = Field(examples=["oracle"])
    part: str = Field(examples=["f1"])
    points: list[tuple[int, float]] = Field(
        description="Step of the training, and the mean score", examples=[[[40, 0.62], [80, 0.55]]]
    )


class FiredAlarm(Body):
    """The alarm, which fired."""

    step: int = Field(examples=[80])
    reasons: list[str] = Field(default=[], examples=[["objects named per caption: 4.6, above 4.2"]])


class CrossingBody(Body):
    """A statistic that went beyond its limit."""

    name: str = Field(examples=["objects"])
    words: str = Field(examples=["objects named per caption"])
    first: int = Field(description="First step beyond the limit", examples=[80])
    steps: int = Field(description="Number of measured steps beyond it", examples=[12])
    fired: bool = Field(
        description="It is a reason of the alarm; else it went beyond its limit without one", examples=[True]
    )
    together: dict[str, int] = Field(
        description="Other statistic → number of steps at which both were beyond their limits",
        examples=[{"repeated phrases": 9}],
    )


class SignalsBody(Body):
    """Reward of a training, and the figures that watch it."""

    rewards: list[tuple[int, float]] = Field(examples=[[[40, 0.61], [80, 0.83]]])
    held_out: list[tuple[int, float]] = Field(
        description="Scores of the held-out judge", examples=[[[40, 0.6], [80, 0.52]]]
    )
    measure: MeasureBody | None
    config: AlarmConfig
    traces: list[TraceBody]
    crossings: list[CrossingBody] = Field(description="Those of the statistics, but for the reward, that went beyond")
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
