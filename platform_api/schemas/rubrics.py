"""Rubric sets, rubrics and their versions over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.rubrics import Rubric

VersionState = Literal["proposed", "approved", "rejected"]


class RubricSetBody(BaseModel):
    """The rubrics that a stage wrote."""

    run: str
    stage: str = Field(examples=["synthesize_rubrics"])
    rubrics: int
    modified: datetime


class RubricSetPage(BaseModel):
    """A page of rubric sets, the last written first."""

    items: list[RubricSetBody]
    next_cursor: str | None


class CriterionUseBody(BaseModel):
    """One criterion over a set and the trainings of its run."""

    model_config = ConfigDict(from_attributes=True)

    criterion: str
    rubrics: int = Field(description="Rubrics that have it")
    weight: float = Field(description="Mean over those")
    graded: int
    pass_rate: float | None = Field(description="Mean credit; null if it was never graded")
    variance: float | None
    state: Literal["always", "never", "varies", "not graded"] = Field(
        description="Always and never met criteria give no gradient"
    )


class CriterionUsePage(BaseModel):
    """A page of criteria, those that give no gradient first."""

    items: list[CriterionUseBody]
    next_cursor: str | None


class RubricEntryBody(BaseModel):
    """One sample's rubric in a set."""

    model_config = ConfigDict(from_attributes=True)

    sample_id: str = Field(examples=["2b71b300c10aae76"])
    criteria: int
    weight: float = Field(description="Sum of the weights")
    version: int = Field(description="Version that stands; 1 is the stage's own")
    open: int = Field(description="Versions that wait for a review")


class RubricEntryPage(BaseModel):
    """A page of rubrics."""

    items: list[RubricEntryBody]
    next_cursor: str | None


class RubricVersionBody(BaseModel):
    """An edited version of a rubric."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    run: str
    stage: str
    sample_id: str
    number: int
    replaces: int = Field(description="Version that it was made from")
    state: VersionState
    reason: str
    proposed_by: str
    proposed_at: datetime
    reviewed_by: str | None
    reviewed_at: datetime | None
    review: str
    rubric: Rubric


class RubricVersionPage(BaseModel):
    """A page of versions, the newest first."""

    items: list[RubricVersionBody]
    next_cursor: str | None


class RubricBody(BaseModel):
    """One sample's rubric with its versions."""

    sample_id: str
    version: int = Field(description="Version that is shown")
    standing: int = Field(description="Version that stands")
    writer: str
    rubric: Rubric
    versions: list[RubricVersionBody]


class RubricProposal(BaseModel):
    """A new version of a rubric."""

    model_config = ConfigDict(extra="forbid")

    rubric: Rubric
    replaces: int = Field(ge=1, lt=1 << 31, description="Version that it was made from, which has to stand still")
    reason: str = Field(min_length=1, max_length=2000)


class SampleChangeBody(BaseModel):
    """One sample's rubric in two sets, with the numbers of its criteria by title."""

    model_config = ConfigDict(from_attributes=True)

    sample_id: str
    change: Literal["added", "removed", "changed", "same"]
    added: int
    removed: int
    changed: int
    same: int


class SampleChangePage(BaseModel):
    """A page of samples, those that differ first."""

    items: list[SampleChangeBody]
    next_cursor: str | None


class FieldChangeBody(BaseModel):
    """One field of a criterion in two versions, in pieces."""

    model_config = ConfigDict(from_attributes=True)

    field: str
    pieces: list[tuple[Literal["same", "removed", "added"], str]]


class CriterionChangeBody(BaseModel):
    """One criterion in two versions."""

    model_config = ConfigDict(from_attributes=True)

    criterion: str
    change: Literal["added", "removed", "changed", "same"]
    fields: list[FieldChangeBody]


class RubricDiff(BaseModel):
    """Two versions of a rubric, of one set or of two."""

    before: int
    after: int
    criteria: list[CriterionChangeBody]
