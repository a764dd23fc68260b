"""Evaluations and leaderboards over HTTP."""

from datetime import datetime

from pydantic import BaseModel, Field

from rubricworks.evaluation.leaderboard import Leaderboard


class EvaluationBody(BaseModel):
    """A run's table of scores."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["score"])
    scores: int = Field(examples=[1536])
    modified: datetime


class EvaluationPage(BaseModel):
    """A page of evaluations, the last written first."""

    items: list[EvaluationBody]
    next_cursor: str | None


class ScoreBody(BaseModel):
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


class ScoreRowPage(BaseModel):
    """A page of scores in the order of their table; with rare filters it may be short, and `next_cursor` leads on."""

    items: list[ScoreBody]
    next_cursor: str | None


class BoardBody(BaseModel):
    """A leaderboard with the runs that it is made of."""

    runs: list[str] = Field(examples=[["quickstart-20261123-020900"]])
    simulated: bool = Field(examples=[True])
    board: Leaderboard | None
