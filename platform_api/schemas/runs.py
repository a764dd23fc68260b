"""Runs over HTTP."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from rubricworks.runs.records import State

StepStatistics = Annotated[
    dict[str, Any], Field(examples=[{"step": 40, "reward_mean": 0.62, "reward_std": 0.21, "length_mean": 11.5}])
]
"""Figures of a step by name, as the training writes them."""


class StageBody(BaseModel):
    """A stage of a run."""

    model_config = ConfigDict(from_attributes=True)

    stage: str = Field(examples=["train_policy"])
    done: bool = Field(examples=[True])
    changed: datetime = Field(description="Time of its end, or else of its start")


class StageProgressBody(BaseModel):
    """Progress of a stage at work."""

    stage: str = Field(examples=["train_policy"])
    done: int = Field(examples=[120])
    total: int = Field(examples=[500])
    unit: str = Field(examples=["steps"])
    rate: float = Field(description="Units a second, in the stage's present attempt", examples=[0.8])
    seconds_left: float | None = Field(description="Null while there is no rate yet")
    tokens: int = Field(description="Tokens of the whole run so far", examples=[180224])
    dollars: float = Field(description="Cost of the whole run so far", examples=[0.42])


class RunBody(BaseModel):
    """A run, as its files tell."""

    model_config = ConfigDict(from_attributes=True)

    name: str = Field(examples=["quickstart-20261123-020900"])
    state: State
    recipe: str = Field(examples=["quickstart"])
    pipeline: str = Field(examples=["rubicap"])
    started: datetime
    changed: datetime = Field(description="Time of the last write to any of its files")
    bytes: int = Field(examples=[1843200])
    message: str = Field(
        description="Reason of a failure, the way on of a run that was stopped, or the result of a finished one",
        examples=["the policy is better than its base by 0.1"],
    )
    stages: list[StageBody]
    progress: list[StageProgressBody] = Field(description="Of the stages at work, if the run is going")

    @field_validator("progress", mode="before")
    @classmethod
    def _of_an_old_index(cls, value: object) -> object:
        return [] if value is None else value


class RunPage(BaseModel):
    """A page of runs."""

    items: list[RunBody]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last one")


class LogBody(BaseModel):
    """End of a stage's log."""

    stage: str = Field(examples=["train_policy"])
    text: str = Field(examples=["step 40: reward 0.62\n"])
