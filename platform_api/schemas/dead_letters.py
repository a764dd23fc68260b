"""Dead letters and budgets over HTTP."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.llm.spending import Budget


class LetterTableBody(BaseModel):
    """A stage's dead letters."""

    run: str
    stage: str
    letters: int
    modified: datetime


class LetterTablePage(BaseModel):
    """A page of stages with dead letters, the last written first."""

    items: list[LetterTableBody]
    next_cursor: str | None


class DeadLetterBody(BaseModel):
    """A call without a usable answer."""

    folder: str = Field(description="Folder of its stage in the run")
    sample_id: str
    purpose: str
    criterion: str | None
    response: str | None
    reason: str = Field(examples=["malformed"])
    message: str
    raw: str = Field(description="What the model answered")
    request: str = Field(description="Digest of the request")
    attempts: int


class DeadLetterPage(BaseModel):
    """A page of dead letters."""

    items: list[DeadLetterBody]
    next_cursor: str | None


class Reopened(BaseModel):
    """A stage that the resumed run asks again."""

    run: str
    stage: str
    letters: int
    resumed: bool = Field(description="The run was submitted to this service and goes on; otherwise resume it yourself")
    command: str = Field(description="Command that resumes the run", examples=["rubricworks run --resume quickstart-1"])


class StageSpendingBody(BaseModel):
    """Calls of one stage, made and planned."""

    model_config = ConfigDict(from_attributes=True)

    stage: str
    seconds: float
    calls: int
    cached: int
    tokens: int
    dollars: float
    planned_calls: int
    planned_tokens: int
    planned_dollars: float


class SpendingBody(BaseModel):
    """Spending of a run beside what was planned."""

    model_config = ConfigDict(from_attributes=True)

    caps: Budget
    tokens: int
    dollars: float
    planned_tokens: int
    planned_dollars: float
    stages: list[StageSpendingBody]
