"""Checks of a GenRM's output against its label (RLR³, sections 4.4 and 5.4).

Training and report use the same four facts of each criterion: it has a verifier, its slot holds it verbatim, the output
took the right path with the right verifier, and the content equals the label's.
"""

from typing import NamedTuple

from pydantic import ValidationError

from rubricworks.grading.scoring_answers import ScoredItem, Scoring, check_call
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier
from rubricworks.verifiers.calls import Literal, VerifierCall


class CriterionCheck(NamedTuple):
    """Check of one criterion of the checklist."""

    verifiable: bool
    slot: bool
    """True if its slot in the output has its exact text."""
    executed: bool
    """True if its slot is right and its credit is a valid call of its verifier, or a number if a judge decides."""
    score: float
    """The verifier's score of the value with the label's value as target, or 1 if the credit equals the label's; 0 if
    not executed.
    """


class AnswerCheck(NamedTuple):
    """Result of checking one output of the GenRM: its form, and each criterion."""

    valid: bool
    """The output is one JSON object with all fields of the expected types, and nothing else."""
    criteria: tuple[CriterionCheck, ...]
    """Checks in the rubric's order; all failed if the output is not valid."""
    surplus: int
    """Number of entries beyond the checklist's."""


def parse_scoring(text: str) -> Scoring | None:
    """Parse an output as a scoring; None unless it has exactly the expected fields."""
    try:
        scoring = Scoring.model_validate_json(text)
    except ValidationError:
        return None
    return scoring if scoring.model_fields_set == set(Scoring.model_fields) else None


def check_answer(text: str, label: Scoring, rubric: Rubric) -> AnswerCheck:
    """Compare an output with the label of the same response.

    Args:
        label: a scoring that fits the rubric, as `median_label` returns it.
    Raises:
        ValueError: the label does not fit the rubric.
    """
    answer = parse_scoring(text)
    answer_items = {True: answer.essential, False: answer.additional} if answer else {True: (), False: ()}
    label_items = {True: label.essential, False: label.additional}
    counts = {True: 0, False: 0}
    checks = []
    for criterion in rubric.criteria:
        index = counts[criterion.essential]
        counts[criterion.essential] += 1
        if index >= len(label_items[criterion.essential]):
            raise ValueError(f"the label has no entry for {criterion.criterion!r}")
        items = answer_items[criterion.essential]
        item = items[index] if index < len(items) else None
        checks.append(_check(criterion, item, label_items[criterion.essential][index]))
    surplus = sum(max(0, len(answer_items[essential]) - counts[essential]) for essential in (True, False))
    return AnswerCheck(answer is not None, tuple(checks), surplus)


def value_score(call: str, label_call: str, reference: str) -> float:
    """Score an extracted value with the label's value as target, using the options of the rubric's verifier call.

    Two empty values agree. A value that the verifier rejects as target agrees with the same value only.
    """
    answer, label = parse_verifier_call(call), parse_verifier_call(label_call)
    if answer == label:
        return 1.0
    if _is_empty(answer) or _is_empty(label):
        return float(_is_empty(answer) and _is_empty(label))
    options = {
        name: value
        for name, value in parse_verifier_call(reference).arguments.items()
        if name not in ("target", "candidates", "tformat")
    }
    target: dict[str, Literal] = {"target": label.arguments["predict"]}
    if "pformat" in label.arguments:
        target["tformat"] = label.arguments["pformat"]
    arguments = ", ".join(f"{name}={value!r}" for name, value in {**target, **options}.items())
    try:
        return run_verifier(f"{label.name}({arguments})", call)
    except (CannotVerify, ValueError):
        return 0.0


def _check(criterion: Criterion, item: ScoredItem | None, label: ScoredItem) -> CriterionCheck:
    verifier = criterion.verifier
    verifiable = verifier is not None
    if item is None or item.criterion != criterion.criterion:
        return CriterionCheck(verifiable, slot=False, executed=False, score=0.0)
    if verifier is None:
        executed = not isinstance(item.credit, str)
        return CriterionCheck(verifiable, True, executed, float(item.credit == label.credit))
    if not isinstance(item.credit, str):
        return CriterionCheck(verifiable, slot=True, executed=False, score=0.0)
    try:
        check_call(item.credit, verifier)
    except ValueError:
        return CriterionCheck(verifiable, slot=True, executed=False, score=0.0)
    score = value_score(item.credit, str(label.credit), criterion.reference)
    return CriterionCheck(verifiable, True, True, score)


def _is_empty(call: VerifierCall) -> bool:
    predict = call.arguments.get("predict")
    return predict is None or predict == () or (isinstance(predict, str) and not predict.strip())
