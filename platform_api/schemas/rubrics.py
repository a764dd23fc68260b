"""Rubric sets, rubrics and their versions over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from rubricworks.platform_api.schemas.bodies import Body, RequestBody
from rubricworks.rubrics import Rubric

Change = Literal["added", "removed", "changed", "same"]
Piece = tuple[Literal["same", "removed", "added"], str]
"""Text that both, the earlier or the later version has."""
VersionState = Literal["proposed", "approved", "rejected"]


class RubricSetBody(Body):
    """The rubrics that a stage wrote."""

    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["synthesize_rubrics"])
    rubrics: int = Field(examples=[256])
    modified: datetime


class CriterionUseBody(Body):
    """One criterion over a set and the trainings of its run."""

    criterion: str = Field(examples=["Names the red star"])
    rubrics: int = Field(description="Rubrics that have it", examples=[32])
    weight: float = Field(description="Mean over those", examples=[3.0])
    graded: int = Field(examples=[960])
    pass_rate: float | None = Field(description="Mean credit; null if it was never graded", examples=[0.71])
    variance: float | None = Field(examples=[0.2])
    state: Literal["always", "never", "varies", "not graded"] = Field(
        description="Always and never met criteria give no gradient"
    )


class RubricEntryBody(Body):
    """One sample's rubric in a set."""

    sample_id: str = Field(examples=["2b71b300c10aae76"])
    criteria: int = Field(examples=[4])
    weight: float = Field(description="Sum of the weights", examples=[8.0])
    version: int = Field(description="Version that stands; 1 is the stage's own", examples=[2])
    open: int = Field(description="Versions that wait for a review", examples=[1])


class RubricVersionBody(Body):
    """An edited version of a rubric."""

    id: int = Field(examples=[7])
    run: str = Field(examples=["quickstart-20261123-020900"])
    stage: str = Field(examples=["synthesize_rubrics"])
    sample_id: str = Field(examples=["2b71b300c10aae76"])
    number: int = Field(examples=[2])
    replaces: int = Field(description="Version that it was made from", examples=[1])
    state: VersionState = Field(examples=["approved"])
    reason: str = Field(examples=["the colour was missing"])
    proposed_by: str = Field(examples=["ada"])
    proposed_at: datetime
    reviewed_by: str | None = Field(examples=["grace"])
    reviewed_at: datetime | None = Field(examples=["2026-11-23T09:30:00Z"])
    review: str = Field(examples=["yes"])
    rubric: Rubric


class RubricBody(Body):
    """One sample's rubric with its versions."""

    sample_id: str = Field(examples=["2b71b300c10aae76"])
    version: int = Field(description="Version that is shown", examples=[2])
    standing: int = Field(description="Version that stands", examples=[2])
    writer: str = Field(examples=["writer@1"])
    rubric: Rubric
    versions: list[RubricVersionBody]


class RubricProposal(RequestBody):
    """A new version of a rubric."""

    rubric: Rubric
    replaces: int = Field(
        ge=1, lt=1 << 31, description="Version that it was made from, which has to stand still", examples=[1]
    )
    reason: str = Field(min_length=1, max_length=2000, examples=["the colour was missing"])


class SampleChangeBody(Body):
    """One sample's rubric in two sets, with the numbers of its criteria by title."""

    sample_id: str = Field(examples=["2b71b300c10aae76"])
    change: Change
    added: int = Field(examples=[1])
    removed: int = Field(examples=[0])
    changed: int = Field(examples=[1])
    same: int = Field(examples=[3])


class FieldChangeBody(Body):
    """One field of a criterion in two versions, in pieces."""

    field: str = Field(examples=["criterion"])
    pieces: list[Piece] = Field(examples=[[("same", "Names the "), ("added", "red "), ("same", "star")]])


class CriterionChangeBody(Body):
    """One criterion in two versions."""

    criterion: str = Field(examples=["Names the red star"])
    change: Change
    fields: list[FieldChangeBody]


class RubricDiff(Body):
    """Two versions of a rubric, of one set or of two."""

    before: int = Field(examples=[1])
    after: int = Field(examples=[2])
    criteria: list[CriterionChangeBody]
