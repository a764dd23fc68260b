"""Evaluations and leaderboards over HTTP."""

from datetime import datetime

from pydantic import BaseModel

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


class BoardBody(BaseModel):
    """A leaderboard with the runs that it is made of."""

    runs: list[str]
    simulated: bool
    board: Leaderboard | None
