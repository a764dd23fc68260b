"""Signals of reward hacking and audits over HTTP."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.reports.judge_audit_cases import BadCase, MisjudgedCriterion
from rubricworks.training.config import AlarmConfig


class TraceBody(BaseModel):
    """One statistic that the alarm watches."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(examples=["objects"])
    words: str = Field(examples=["objects named per caption"])
    points: list[tuple[int, float]] = Field(
        description="Step, and the mean over the window that ends there", examples=[[[40, 2.1], [80, 4.6]]]
    )
    start: float = Field(description="Mean over the first window", examples=[2.1])
    low: float | None = Field(description="Limit below which it is suspicious")
    high: float | None = Field(description="Limit above which it is suspicious", examples=[4.2])
    crossed: int | None = Field(description="First step beyond a limit", examples=[80])


class MeasureBody(BaseModel):
    """A score that training does not see."""

    model_config = ConfigDict(from_attributes=True)

    scorer: str = Field(examples=["oracle"])
    part: str = Field(examples=["f1"])
    points: list[tuple[int, float]] = Field(
        description="Step of the training, and the mean score", examples=[[[40, 0.62], [80, 0.55]]]
    )


class FiredAlarm(BaseModel):
    """The alarm, which fired."""

    step: int = Field(examples=[80])
    reasons: list[str] = Field(default=[], examples=[["objects named per caption: 4.6, above 4.2"]])


class SignalsBody(BaseModel):
    """Reward of a training, and the figures that watch it."""

    model_config = ConfigDict(from_attributes=True)

    rewards: list[tuple[int, float]] = Field(examples=[[[40, 0.61], [80, 0.83]]])
    held_out: list[tuple[int, float]] = Field(
        description="Scores of the held-out judge", examples=[[[40, 0.6], [80, 0.52]]]
    )
    measure: MeasureBody | None
    config: AlarmConfig
    traces: list[TraceBody]
    alarm: FiredAlarm | None


class AuditBody(BaseModel):
    """An audit of a run."""

    stage: str = Field(examples=["audit"])
    rows: int = Field(examples=[480])


class AuditPage(BaseModel):
    """A page of a run's audits."""

    items: list[AuditBody]
    next_cursor: str | None


class MisjudgedBody(BaseModel):
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
    def of(cls, one: MisjudgedCriterion) -> Self:
        """Body of a criterion."""
        return cls(
            criterion=one.criterion.criterion,
            weight=one.criterion.weight,
            essential=one.criterion.essential,
            deserved=one.annotation.credit,
            settings={
                setting: credit.verdict.credit
                for credit in one.credits
                for setting in credit.settings
                if credit.verdict.credit is not None
            },
            reasoning=one.credits[0].verdict.reasoning if one.credits else None,
        )


class AuditCaseBody(BaseModel):
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
            criteria=[MisjudgedBody.of(one) for one in case.criteria],
        )


class AuditCasePage(BaseModel):
    """A page of cases, the worst first."""

    items: list[AuditCaseBody]
    next_cursor: str | None
