"""Runs, their dead letters and budgets over HTTP."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from rubricworks.llm.spending import Budget
from rubricworks.platform_api.schemas.bodies import Body, JsonObject
from rubricworks.runs.records import State

StepStatistics = Annotated[
    JsonObject, Field(examples=[{"step": 40, "reward_mean": 0.62, "reward_std": 0.21, "length_mean": 11.5}])
]
"""Figures of a step by name, as the training writes them."""


class StageBody(Body):
    """A stage of a run."""

    stage: str = Field(examples=["train_policy"])
    done: bool = Field(examples=[True])
    changed: datetime = Field(description="Time of its end, or else of its start")


class StageProgressBody(Body):
    """Progress of a stage at work."""

    stage: str = Field(examples=["train_policy"])
    done: int = Field(examples=[120])
    total: int = Field(examples=[500])
    unit: str = Field(examples=["steps"])
    rate: float = Field(description="Units a second, in the stage's present attempt", examples=[0.8])
    seconds_left: float | None = Field(description="Null while there is no rate yet")
    tokens: int = Field(description="Tokens of the whole run so far", examples=[180224])
    dollars: float = Field(description="Cost of the whole run so far", examples=[0.42])
    waiting: str = Field(
        "",
        description="Reason for which pods of the stage wait; empty if none does",
        examples=["2 of 8 parts wait: pods are refused: exceeded quota: compute"],
    )


class RunBody(Body):
    """A run, as its files tell."""

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
    fault: str = Field(description="Files that cannot be read, and what to do; empty if all can", examples=[""])
    stages: list[StageBody]
    progress: list[StageProgressBody] = Field(description="Of the stages at work, if the run is going")


class LogBody(Body):
    """End of a stage's log."""

    stage: str = Field(examples=["train_policy"])
    text: str = Field(examples=["step 40: reward 0.62\n"])


class LetterTableBody(Body):
    """A stage's dead letters."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["caption_committee"])
    letters: int = Field(examples=[2])
    modified: datetime


class DeadLetterBody(Body):
    """A call without a usable answer."""

    folder: str = Field(description="Folder of its stage in the run", examples=["train_policy"])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    purpose: str = Field(examples=["judge"])
    criterion: str | None = Field(examples=["Names the red star"])
    response: str | None = Field(examples=["A red star stands left of a blue circle."])
    reason: str = Field(examples=["malformed"])
    message: str = Field(examples=["the answer has no verdict"])
    raw: str = Field(description="What the model answered", examples=["I would say so."])
    request: str = Field(description="Digest of the request", examples=["9f86d081884c7d65"])
    attempts: int = Field(examples=[3])


class Reopened(Body):
    """A stage that the resumed run asks again."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["caption_committee"])
    letters: int = Field(examples=[2])
    resumed: bool = Field(
        description="The run was submitted to this service and goes on; otherwise resume it yourself", examples=[True]
    )
    command: str = Field(description="Command that resumes the run", examples=["rubricworks run --resume quickstart-1"])


class StageSpendingBody(Body):
    """Calls of one stage, made and planned."""

    stage: str = Field(examples=["caption_committee"])
    seconds: float = Field(examples=[41.5])
    calls: int = Field(examples=[512])
    cached: int = Field(examples=[64])
    tokens: int = Field(examples=[180224])
    dollars: float = Field(examples=[0.42])
    planned_calls: int = Field(examples=[576])
    planned_tokens: int = Field(examples=[202752])
    planned_dollars: float = Field(examples=[0.47])


class SpendingBody(Body):
    """Spending of a run beside what was planned."""

    caps: Budget = Field(examples=[{"tokens": 1000000, "dollars": 5.0}])
    tokens: int = Field(examples=[180224])
    dollars: float = Field(examples=[0.42])
    planned_tokens: int = Field(examples=[202752])
    planned_dollars: float = Field(examples=[0.47])
    stages: list[StageSpendingBody]
