"""Values of a failure-mode audit: failure modes, attacks, the judge's settings, cases and annotations (RLR³, 5.5, B.4).

An annotation is the credit that a response deserves on a criterion. For a criterion with a verifier it records the
value that the response states, and the verifier turns it into the deserved credit; for other criteria it gives the
credit itself.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, Field, TypeAdapter

from rubricworks.grading.execution import verdicts_of
from rubricworks.grading.scoring_answers import Scoring
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier

FailureMode = Literal["no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial"]
FAILURE_MODES: tuple[FailureMode, ...] = get_args(FailureMode)
Attack = Literal["circumlocution", "symbolic_bluff", "wrong_final_selection"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
Mode = Literal["regular", "no_final_answer", "irrelevant", "wrong_but_plausible", "adversarial"]
Setting = Literal["text", "image", "targets", "unverified"]
"""Exposure of the judge under audit, as in `grading.Exposure`: `text` is RLR³'s minimal exposure, `image` adds the
image, `targets` the verifiers' targets; `unverified` shows the targets as words to credit by, without verifiers.
"""
SETTINGS: tuple[Setting, ...] = get_args(Setting)

CREDIT_THRESHOLD = 0.5
"""Lowest credit that counts as given: RLR³ calls scores below 0.5 failures (section 4.3)."""

MODE_NAMES: Mapping[str, str] = {
    "regular": "Regular",
    "no_final_answer": "No final answer",
    "irrelevant": "Irrelevant",
    "wrong_but_plausible": "Wrong but plausible",
    "adversarial": "Adversarial",
}
SETTING_NAMES: Mapping[str, str] = {
    "text": "Default",
    "image": "Image shown",
    "targets": "Targets shown",
    "unverified": "No verifier",
}
ATTACK_NAMES: Mapping[str, str] = {
    "circumlocution": "authoritative circumlocution",
    "symbolic_bluff": "symbolic-equivalence bluff",
    "wrong_final_selection": "incorrect final selection",
}


class Case(NamedTuple):
    """Labelled response of a model, from which the audit's generator writes abnormal responses."""

    sample_id: str
    question: str
    response: str
    rubric: Rubric
    label: str
    """Consensus scoring of the teachers, as JSON (RLR³, appendix A.2)."""


class Failure(NamedTuple):
    """Failure that a response is written to have."""

    mode: FailureMode
    instruction: str
    attack: Attack | None = None
    pattern: str | None = None
    """Name of the attack pattern."""


class Annotation(BaseModel, extra="forbid", frozen=True):
    """Credit that a response deserves on one criterion."""

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
    """Score a call by its verifier; None if its target is invalid.

    Raises:
        ValueError: the call does not belong to this verifier.
    """
    try:
        return run_verifier(reference, call)
    except CannotVerify:
        return None
