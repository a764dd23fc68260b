"""Evaluations and leaderboards over HTTP."""

from datetime import datetime

from pydantic import BaseModel, Field

from rubricworks.evaluation.leaderboard import Leaderboard


class EvaluationBody(BaseModel):
    """A run's table of scores."""

    run: str
    stage: str
    scores: int
    modified: datetime


class EvaluationPage(BaseModel):
    """A page of evaluations, the last written first."""

    items: list[EvaluationBody]
    next_cursor: str | None


class ScoreBody(BaseModel):
    """One scorer's value of one response, or of a corpus."""

    sample_id: str | None = Field(description="None if the row scores a corpus")
    model: str = Field(examples=["policy"])
    revision: str
    step: int | None = Field(description="Step of a training's milestone")
    decoding: str = Field(examples=["greedy"])
    against: str | None = Field(description="Model of the opponent")
    scorer: str = Field(examples=["oracle"])
    version: str
    judge: str
    part: str = Field(examples=["f1"])
    value: float | None = Field(description="None if the response could not be judged")
    reason: str | None = Field(description="Reason for having no value")


class ScoreRowPage(BaseModel):
    """A page of scores in the order of their table; with rare filters it may be short, and `next_cursor` leads on."""

    items: list[ScoreBody]
    next_cursor: str | None


class BoardBody(BaseModel):
    """A leaderboard with the runs that it is made of."""

    runs: list[str]
    simulated: bool
    board: Leaderboard | None
