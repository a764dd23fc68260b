"""How well a GenRM's output executes a checklist, measured against its label (RLR³, sections 4.4 and 5.4).

Training and report see the same four things of each criterion: is it a verifier's, does its slot hold it word for word,
was the right path taken with the right verifier, and is the content the label's.
"""

from typing import NamedTuple

from pydantic import ValidationError

from rubricworks.grading.scoring_answers import ScoredItem, Scoring, check_call
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier
from rubricworks.verifiers.calls import Literal, VerifierCall


class CriterionCheck(NamedTuple):
    """What became of one criterion of the checklist."""

    verifiable: bool
    slot: bool
    """Its place in the output holds it, word for word."""
    executed: bool
    """Its slot is right, and its credit a call of its verifier that can be run, or a number where a judge decides."""
    score: float
    """The verifier's score of the value with the label's as target, or whether the credit is the label's; 0 if not
    executed."""


class AnswerCheck(NamedTuple):
    """What became of one output."""

    valid: bool
    """One JSON object with all fields of the expected types, and nothing around it."""
    criteria: tuple[CriterionCheck, ...]
    """In the rubric's order; all of them failed where the output is not valid."""
    surplus: int
    """Entries beyond the checklist's."""


def read_scoring(text: str) -> Scoring | None:
    """The output as a scoring; None unless it is one, whole, with every field given and nothing else."""
    try:
        scoring = Scoring.model_validate_json(text)
    except ValidationError:
        return None
    return scoring if scoring.model_fields_set == set(Scoring.model_fields) else None


def check_answer(text: str, label: Scoring, rubric: Rubric) -> AnswerCheck:
    """Compare an output with the label of the same response.

    Args:
        label: a scoring that fits the rubric, as `median_label` makes it.
    Raises:
        ValueError: the label does not fit the rubric.
    """
    answer = read_scoring(text)
    given = {True: answer.essential, False: answer.additional} if answer else {True: (), False: ()}
    wanted = {True: label.essential, False: label.additional}
    places = {True: 0, False: 0}
    checks = []
    for criterion in rubric.criteria:
        place = places[criterion.essential]
        places[criterion.essential] += 1
        if place >= len(wanted[criterion.essential]):
            raise ValueError(f"the label has no entry for {criterion.criterion!r}")
        slots = given[criterion.essential]
        item = slots[place] if place < len(slots) else None
        checks.append(_check(criterion, item, wanted[criterion.essential][place]))
    surplus = sum(max(0, len(given[kind]) - places[kind]) for kind in (True, False))
    return AnswerCheck(answer is not None, tuple(checks), surplus)


def same_value(call: str, label_call: str, reference: str) -> float:
    """The verifier's score of one extracted value with another as target, compared as the rubric's call says.

    Two empty values agree. A value that the verifier cannot take for a target agrees with the same value only.
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
    score = same_value(item.credit, str(label.credit), criterion.reference)
    return CriterionCheck(verifiable, True, True, score)


def _is_empty(call: VerifierCall) -> bool:
    predict = call.arguments.get("predict")
    return predict is None or predict == () or (isinstance(predict, str) and not predict.strip())
