"""Runs, their dead letters and budgets over HTTP."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, field_validator

from rubricworks.llm.spending import Budget
from rubricworks.metrics import Interval
from rubricworks.platform_api.schemas.bodies import Body, JsonObject, RequestBody
from rubricworks.runs.records import State

RunState = State | Literal["starting", "queued"]
"""State of a run's record; `starting` or `queued` before its first file."""
RunColumn = Literal[
    "state",
    "reward",
    "win_rate",
    "champion",
    "dollars",
    "seconds",
    "owner",
    "tags",
    "recipe",
    "pipeline",
    "started",
    "changed",
]
"""Column of the list of runs."""
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
    """A run, read from its files."""

    name: str = Field(examples=["quickstart-20261123-020900"])
    state: RunState
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
    reward: float | None = Field(description="Mean reward of the last 10 steps of its last training", examples=[0.62])
    win_rate: float | None = Field(description="Share of samples on which it wins against its base", examples=[0.71])
    win_low: float | None = Field(description="Low end of the 95 % interval of the win rate", examples=[0.64])
    win_high: float | None = Field(examples=[0.78])
    dollars: float | None = Field(description="Cost of its calls", examples=[0.42])
    seconds: float | None = Field(description="Time of its stages", examples=[412.5])
    champion: str | None = Field(
        description="Model and version that it registered, if that is the champion", examples=["captioner 3"]
    )
    owner: str | None = Field(description="Who submitted it; null for a run that was started elsewhere")
    tags: list[str] = Field(examples=[["baseline"]])

    @field_validator("tags", mode="before")
    @classmethod
    def _split(cls, tags: object) -> object:
        return tags.split(", ") if isinstance(tags, str) else tags or []


class NotesBody(Body):
    """Notes and tags of a run."""

    note: str = Field(examples=["The judge was slow."])
    tags: list[str] = Field(examples=[["baseline"]])
    by: str | None = Field(description="Who wrote it last", examples=["ada"])
    at: datetime | None


Tag = Annotated[str, Field(min_length=1, max_length=50, pattern=r"^[\w.:/-]+$", examples=["baseline"])]


class NotesRequest(RequestBody):
    """A note and tags of a run, in place of those before."""

    note: str = Field(default="", max_length=5_000, examples=["The judge was slow."])
    tags: list[Tag] = Field(default=[], max_length=20)


class Resumed(Body):
    """A run that was resumed."""

    run: str = Field(examples=["quickstart-20261123-020900"])


class ArtifactBody(Body):
    """A file of a run that can be taken along."""

    path: str = Field(description="Below the run's folder", examples=["train_policy/rollouts/part-00000.parquet"])
    kind: str = Field(description="Schema of its table; empty for a file of no table", examples=["rollouts"])
    rows: int | None = Field(examples=[512])
    bytes: int = Field(examples=[184320])
    modified: datetime
    digest: str | None = Field(
        description="SHA-256 of the file, as its table's manifest has it", examples=["9f86d081884c7d659a2feaa0c55ad015"]
    )
    stage_digest: str | None = Field(
        description="Digest of all that its stage wrote", examples=["fcc98967fac420604641400db236451a"]
    )


class CurveBody(Body):
    """One figure of a training over its steps."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["train_policy"])
    name: str = Field(description="As the training writes it", examples=["reward"])
    points: list[tuple[float, float]] = Field(description="Step and value", examples=[[[1, 0.52], [2, 0.61]]])


class SettingBody(Body):
    """A field of a recipe in each of the runs that are compared."""

    field: str = Field(examples=["policy.algorithm.steps"])
    values: list[str | None] = Field(description="In the order of the runs; null where it is not set")
    differs: bool = Field(examples=[True])


class ScoreRowBody(Body):
    """A figure of an evaluation in each of the runs that are compared."""

    figure: str = Field(examples=["oracle_f1"])
    title: str = Field(examples=["F1 of the oracle"])
    values: list[Interval | None] = Field(description="Means of the trained models, in the order of the runs")
    gains: list[Interval | None] = Field(description="Gains over each run's base, on the same samples")


class ComparisonBody(Body):
    """Two to eight runs side by side."""

    runs: list[RunBody]
    settings: list[SettingBody]
    scores: list[ScoreRowBody]
    curves: list[CurveBody]


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
    """Spending of a run and its plan."""

    caps: Budget = Field(examples=[{"tokens": 1000000, "dollars": 5.0}])
    tokens: int = Field(examples=[180224])
    dollars: float = Field(examples=[0.42])
    planned_tokens: int = Field(examples=[202752])
    planned_dollars: float = Field(examples=[0.47])
    stages: list[StageSpendingBody]
