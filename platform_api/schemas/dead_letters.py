"""Dead letters and budgets over HTTP."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.llm.spending import Budget


class LetterTableBody(BaseModel):
    """A stage's dead letters."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["caption_committee"])
    letters: int = Field(examples=[2])
    modified: datetime


class LetterTablePage(BaseModel):
    """A page of stages with dead letters, the last written first."""

    items: list[LetterTableBody]
    next_cursor: str | None


class DeadLetterBody(BaseModel):
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


class DeadLetterPage(BaseModel):
    """A page of dead letters."""

    items: list[DeadLetterBody]
    next_cursor: str | None


class Reopened(BaseModel):
    """A stage that the resumed run asks again."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["caption_committee"])
    letters: int = Field(examples=[2])
    resumed: bool = Field(
        description="The run was submitted to this service and goes on; otherwise resume it yourself", examples=[True]
    )
    command: str = Field(description="Command that resumes the run", examples=["rubricworks run --resume quickstart-1"])


class StageSpendingBody(BaseModel):
    """Calls of one stage, made and planned."""

    model_config = ConfigDict(from_attributes=True)

    stage: str = Field(examples=["caption_committee"])
    seconds: float = Field(examples=[41.5])
    calls: int = Field(examples=[512])
    cached: int = Field(examples=[64])
    tokens: int = Field(examples=[180224])
    dollars: float = Field(examples=[0.42])
    planned_calls: int = Field(examples=[576])
    planned_tokens: int = Field(examples=[202752])
    planned_dollars: float = Field(examples=[0.47])


class SpendingBody(BaseModel):
    """Spending of a run beside what was planned."""

    model_config = ConfigDict(from_attributes=True)

    caps: Budget = Field(examples=[{"tokens": 1000000, "dollars": 5.0}])
    tokens: int = Field(examples=[180224])
    dollars: float = Field(examples=[0.42])
    planned_tokens: int = Field(examples=[202752])
    planned_dollars: float = Field(examples=[0.47])
    stages: list[StageSpendingBody]
