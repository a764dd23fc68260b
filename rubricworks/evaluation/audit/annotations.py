"""Annotations of a response: the credit that it deserves on each criterion.

For a criterion with a verifier the annotation records the value that the response states, and the verifier turns it
into the deserved credit; for other criteria it gives the credit itself (RLR³, appendix B.4).
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rubricworks.grading.execution import verdicts_of
from rubricworks.grading.scoring_answers import Scoring
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier


class Annotation(BaseModel):
    """Credit that a response deserves on one criterion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    call: str = ""
    """Stated value as the call that an extractor would write; empty for criteria without a verifier."""
    credit: float | None = Field(ge=0, le=1)
    """None if the verifier cannot read its target."""
    rationale: str = ""


ANNOTATIONS: TypeAdapter[tuple[Annotation, ...]] = TypeAdapter(tuple[Annotation, ...])


def annotate(criterion: Criterion, value: Any, credit: float, rationale: str) -> Annotation:
    """Annotate one criterion; the verifier, if there is one, decides the credit.

    Args:
        value: value that the response states, as text, number or list; empty for none.
        credit: the annotator's credit, used for criteria without a verifier.
    Raises:
        ValueError: the value has a type that this verifier does not take.
    """
    if criterion.verifier is None:
        return Annotation(criterion=criterion.criterion, credit=credit, rationale=rationale)
    call = predict_call(criterion.reference, value)
    credit_by_verifier = verifier_credit(criterion.reference, call)
    return Annotation(criterion=criterion.criterion, call=call, credit=credit_by_verifier, rationale=rationale)


def label_annotations(label: str, rubric: Rubric) -> tuple[Annotation, ...]:
    """Convert the teachers' label of a regular response to annotations.

    Raises:
        ValueError: the label is not a scoring of this rubric.
    """
    verdicts = verdicts_of(Scoring.model_validate_json(label), rubric)
    return tuple(
        Annotation(
            criterion=criterion.criterion,
            call=verdict.call,
            credit=verdict.credit,
            rationale="" if verdict.credit is None else verdict.reasoning,
        )
        for criterion, verdict in zip(rubric.criteria, verdicts, strict=True)
    )


def predict_call(reference: str, value: Any) -> str:
    """Write a stated value as the call that an extractor would write for this reference.

    >>> predict_call("expr_verify(target='3')", 4)
    "expr_verify(predict='4')"
    """
    call = parse_verifier_call(reference)
    several = call.name in ("list_verify", "bbox_verify", "point_verify")
    if value is None or value == "" or value == []:
        return f"{call.name}(predict={[] if several else ''!r})"
    if several and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = [value] if call.name == "list_verify" else value
    elif not several and isinstance(value, int | float):
        value = str(value)
    if isinstance(value, dict) or (isinstance(value, list) and not several):
        raise ValueError(
            f"extracted_value {value!r} is nothing for {call.name}; give {'a list' if several else 'text'}"
        )
    more = f", pformat={call.arguments.get('tformat', '')!r}" if call.name == "time_verify" else ""
    text = f"{call.name}(predict={value!r}{more})"
    parse_verifier_call(text)
    return text


def verifier_credit(reference: str, call: str) -> float | None:
    """Score a call by its verifier; None if the target is at fault.

    Raises:
        ValueError: the call does not belong to this verifier.
    """
    try:
        return run_verifier(reference, call)
    except CannotVerify:
        return None
