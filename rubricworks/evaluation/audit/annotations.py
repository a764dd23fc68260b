"""What a response deserves, criterion by criterion, and how that is written down.

For a criterion with a verifier the annotation records the value that the response states, and the verifier turns it
into the deserved credit; for any other it gives the credit itself (RLR³, appendix B.4).
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rubricworks.grading.execution import verdicts_of
from rubricworks.grading.scoring_answers import Scoring
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier


class Annotation(BaseModel):
    """What a response deserves on one criterion."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    call: str = ""
    """The value that the response states, as an extractor would report it; empty where a judge decides."""
    credit: float | None = Field(ge=0, le=1)
    """None where the verifier cannot read its target."""
    rationale: str = ""


ANNOTATIONS: TypeAdapter[tuple[Annotation, ...]] = TypeAdapter(tuple[Annotation, ...])


def annotated(criterion: Criterion, value: Any, credit: float, rationale: str) -> Annotation:
    """One criterion's annotation, its credit from the verifier where there is one.

    Args:
        value: what the response states, as text, number or list; empty for nothing.
        credit: the annotator's own, which counts where no verifier does.
    Raises:
        ValueError: the value is nothing that this verifier could be given.
    """
    if criterion.verifier is None:
        return Annotation(criterion=criterion.criterion, credit=credit, rationale=rationale)
    call = predict_call(criterion.reference, value)
    scored = verified_credit(criterion.reference, call)
    return Annotation(criterion=criterion.criterion, call=call, credit=scored, rationale=rationale)


def label_annotations(label: str, rubric: Rubric) -> tuple[Annotation, ...]:
    """The teachers' label of a regular response, criterion by criterion.

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
    """A stated value as the call that an extractor would write for this reference.

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
    made = f"{call.name}(predict={value!r}{more})"
    parse_verifier_call(made)
    return made


def verified_credit(reference: str, call: str) -> float | None:
    """The verifier's score; None where the target is at fault.

    Raises:
        ValueError: the call is none of this verifier's.
    """
    try:
        return run_verifier(reference, call)
    except CannotVerify:
        return None
