"""Rubric: the weighted criteria by which one sample's responses are graded.

The first fields of a criterion are those of RubiCap's rubric writer (Prompt 1): a title, a description, a pass/fail
rule, a severity weight and its provenance. A judge sees title, description and rule only. RLR³ (section 4.1) adds a
type and a reference: a verifier call with the target, or the ground truth in words.
"""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.verifier_table import VERIFIERS

_CALL = re.compile(r"\s*\w+_verify\s*\(")


def _is_empty(text: str) -> bool:
    return not text


class Criterion(BaseModel):
    """One checkable statement with a weight."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str = Field(min_length=1, max_length=2_000, examples=["Names the red star"])
    """Title in a few words, unique within its rubric: verdicts refer to it."""
    key: str = Field(default="", max_length=200, exclude_if=_is_empty)
    """Aspect of the criterion, such as `object_count` (RubricRL); several may share it. Not in the JSON if empty."""
    description: str = Field(default="", max_length=4_000, examples=["The caption names the star and its colour."])
    evaluation_rule: str = Field(default="", max_length=4_000)
    """Conditions for pass and fail."""
    weight: float = Field(allow_inf_nan=False, examples=[3.0])
    """Severity. RubiCap: 3 critical, 2 important, 1 minor. Negative for a pitfall, which takes away if it is met."""
    justification: str = ""
    student_already_met: bool = False
    """True if the student's own caption satisfied it when the rubric was written."""
    reference_teachers: tuple[str, ...] = ()
    teacher_consensus: str = ""
    """Statement that the teachers agree on for this element."""
    essential: bool = True
    """RLR³'s type: a response that fails an essential criterion gets reward 0; additional criteria refine the rest."""
    reference: str = Field(default="", max_length=4_000)
    """Ground truth: a verifier call such as `expr_verify(target='4')`, which no model sees, or words for the judge.
    Empty where description and rule suffice.
    """

    @field_validator("criterion")
    @classmethod
    def _not_blank(cls, criterion: str) -> str:
        if not criterion.strip():
            raise ValueError("is blank; say what is to be checked")
        return criterion.strip()

    @field_validator("weight", mode="before")
    @classmethod
    def _a_number(cls, weight: object) -> object:
        if isinstance(weight, bool):
            raise ValueError(f"is {weight}; give a number")
        return weight

    @field_validator("weight")
    @classmethod
    def _not_zero(cls, weight: float) -> float:
        if not weight:
            raise ValueError("is 0; a criterion adds or, with a negative weight, takes away")
        return weight

    @field_validator("reference")
    @classmethod
    def _call_of_a_verifier(cls, reference: str) -> str:
        if _CALL.match(reference):
            call = parse_verifier_call(reference)
            if stray := sorted(call.arguments.keys() - VERIFIERS[call.name].target):
                raise ValueError(f"{call.name} holds {stray[0]}, which is the extractor's to give; give the target")
            if not call.arguments.keys() & {"target", "candidates"}:
                raise ValueError(f"{call.name} has no target to compare with; write {call.name}(target=...)")
        return reference.strip()

    @property
    def verifier(self) -> str | None:
        """Name of the verifier, or None if a judge grades the criterion."""
        return parse_verifier_call(self.reference).name if _CALL.match(self.reference) else None


class Rubric(BaseModel):
    """Criteria of one sample: at least one with a positive weight, with unique titles."""

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

    @model_validator(mode="after")
    def _can_be_earned(self) -> "Rubric":
        if not any(weight > 0 for weight in self.weights):
            raise ValueError("no criterion has a positive weight, so that nothing can be earned; add one")
        return self

    @property
    def weights(self) -> list[float]:
        return [criterion.weight for criterion in self.criteria]

    @property
    def has_pitfalls(self) -> bool:
        """True if a criterion takes away: `signed_reward` then gives the reward, and no gate on essentials applies."""
        return any(weight < 0 for weight in self.weights)

    @property
    def essential(self) -> list[bool]:
        return [criterion.essential for criterion in self.criteria]
