"""Checklist: the answer format of RLR³'s rubric writers (appendix A.1), convertible to a rubric.

The list that holds a criterion gives its type (`essential` or `additional`). Its reference gives the check: a verifier
call with the target, such as `expr_verify(target='4')`, or the ground truth in words for a judge to compare with.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, model_validator

from rubricworks.rubrics.rubric import Criterion, Rubric


class ChecklistItem(BaseModel):
    """One criterion of a checklist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str = Field(min_length=1, max_length=2_000)
    """A concrete assertion that does not reveal the answer."""
    reference: str = Field(min_length=1, max_length=4_000)
    weight: Annotated[Literal[1, 2, 3], StrictInt]
    """3 key, 2 important, 1 auxiliary."""


class Checklist(BaseModel):
    """A writer's complete answer. Without an essential criterion, no wrong response could fail."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    essential: tuple[ChecklistItem, ...] = Field(min_length=1)
    additional: tuple[ChecklistItem, ...] = ()

    @model_validator(mode="after")
    def _is_a_rubric(self) -> "Checklist":
        self.rubric()
        return self

    def rubric(self) -> Rubric:
        """Convert to a rubric, essential criteria first.

        Raises:
            ValueError: two criteria have the same text, or a reference is an invalid verifier call.
        """
        return Rubric(
            criteria=tuple(
                Criterion(criterion=item.criterion, reference=item.reference, weight=item.weight, essential=essential)
                for essential, items in ((True, self.essential), (False, self.additional))
                for item in items
            )
        )
