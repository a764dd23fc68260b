"""A rubric: the weighted criteria that one sample's responses are graded by.

The fields of a criterion are those of RubiCap's rubric writer (Prompt 1): a title, what it measures, a pass/fail rule,
a severity weight and where it comes from. Only title, description and rule are ever shown to a judge.
"""

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class Criterion(BaseModel):
    """One checkable statement with a weight."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str = Field(min_length=1, max_length=2_000)
    """What is checked, in a few words. Unique within its rubric: verdicts refer to it."""
    description: str = Field(default="", max_length=4_000)
    evaluation_rule: str = Field(default="", max_length=4_000)
    """When it passes and when it fails."""
    weight: float = Field(gt=0, allow_inf_nan=False)
    """Severity; RubiCap: 3 critical, 2 important, 1 minor."""
    justification: str = ""
    student_already_met: bool = False
    """Whether the student's own caption satisfied it when the rubric was written."""
    reference_teachers: tuple[str, ...] = ()
    teacher_consensus: str = ""
    """What the teachers agree on for this element."""

    @field_validator("criterion")
    @classmethod
    def _not_blank(cls, criterion: str) -> str:
        if not criterion.strip():
            raise ValueError("is blank; say what is to be checked")
        return criterion.strip()


class Rubric(BaseModel):
    """The criteria of one sample, at least one, titles unique."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criteria: tuple[Criterion, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _unique_titles(self) -> "Rubric":
        titles = [criterion.criterion for criterion in self.criteria]
        repeated = sorted({title for title in titles if titles.count(title) > 1})
        if repeated:
            count = titles.count(repeated[0])
            raise ValueError(f"criterion {repeated[0]!r} stands {count} times; titles must be unique")
        return self

    @property
    def weights(self) -> list[float]:
        return [criterion.weight for criterion in self.criteria]
