"""The checklist that RLR³'s rubric writers answer with (appendix A.1), and the rubric that it stands for.

Its position says a criterion's type (`essential` or `additional`), its reference how it is checked: a verifier call
with the target, such as `expr_verify(target='4')`, or the ground truth in words, which a judge compares with.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from rubricworks.rubrics.rubric import Criterion, Rubric


class ChecklistItem(BaseModel):
    """One criterion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str = Field(min_length=1, max_length=2_000)
    """A concrete assertion that does not give the answer away."""
    reference: str = Field(min_length=1, max_length=4_000)
    weight: Annotated[Literal[1, 2, 3], StrictInt]
    """3 key, 2 important, 1 auxiliary."""


class Checklist(BaseModel):
    """A writer's whole answer; at least one criterion is essential, or nothing could fail a wrong response."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    essential: tuple[ChecklistItem, ...] = Field(min_length=1)
    additional: tuple[ChecklistItem, ...] = ()

    @model_validator(mode="after")
    def _is_a_rubric(self) -> "Checklist":
        self.rubric()
        return self

    def rubric(self) -> Rubric:
        """The same as a rubric, essential criteria first.

        Raises:
            ValueError: two criteria read alike, or a reference is a call that is no verifier's.
        """
        return Rubric(
            criteria=tuple(
                Criterion(criterion=item.criterion, reference=item.reference, weight=item.weight, essential=essential)
                for essential, items in ((True, self.essential), (False, self.additional))
                for item in items
            )
        )
