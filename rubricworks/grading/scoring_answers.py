"""Answers of scoring calls: RLR³'s scoring schema (appendix A.2), and checks against the request.

The credit is a number where the model judges, and a verifier call with the extracted value where a verifier checks. The
answer mirrors the checklist: same lists, same order, verbatim criteria.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from rubricworks.grading.requests import AnyItem, AnyRequest, items_of, verifier_of
from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.verifier_table import VERIFIERS

CREDITS = (0.0, 0.5, 1.0)


def _credit(value: Any) -> float | str:
    """Accept 1.0 as 1, because JSON has one number type; a boolean is not a credit."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value not in CREDITS:
        raise ValueError("give 0, 0.5 or 1, or the call of the scoring tool as a string")
    return float(value)


Credit = Annotated[
    float | str,
    BeforeValidator(_credit),
    WithJsonSchema({"anyOf": [{"type": "number", "enum": [0, 0.5, 1]}, {"type": "string"}]}),
]


class ScoredItem(BaseModel):
    """Credit of one criterion, with its rationale."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criterion: str
    """Verbatim copy of the checklist's criterion."""
    rationale: str
    """Reason for the credit, or source of the value in the response."""
    credit: Credit
    """0, 0.5 or 1, or a call such as `expr_verify(predict='4')`."""


class Scoring(BaseModel):
    """A complete answer; `check_scoring` checks it against its request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    thought: str
    essential: tuple[ScoredItem, ...] = ()
    additional: tuple[ScoredItem, ...] = ()


def check_scoring(scoring: Scoring, request: AnyRequest) -> None:
    """Raise ValueError unless each criterion is answered in its slot, on its path, with its own verifier.

    The message may be sent back to the model: it reveals nothing beyond the request.
    """
    essential, additional = items_of(request)
    _check_list("essential", scoring.essential, essential)
    _check_list("additional", scoring.additional, additional)


def check_call(call: str, verifier: str) -> None:
    """Raise ValueError unless `call` is a valid extractor call for this verifier."""
    parsed = parse_verifier_call(call)
    if parsed.name != verifier:
        raise ValueError(f"it calls {parsed.name}; call {verifier}")
    parameters = VERIFIERS[verifier].predict
    if unexpected := sorted(parsed.arguments.keys() - parameters):
        raise ValueError(f"it holds {unexpected[0]}; give {' and '.join(sorted(parameters, reverse=True))} only")
    if "predict" not in parsed.arguments:
        raise ValueError("it has no predict; without a value write predict='' or predict=[]")
    missing = sorted(parameters - parsed.arguments.keys())
    if missing and not _is_empty(parsed.arguments["predict"]):
        raise ValueError(f"it has no {missing[0]}")


def _check_list(name: str, scored: Sequence[ScoredItem], items: Sequence[AnyItem]) -> None:
    if len(scored) != len(items):
        raise ValueError(f"{name} has {len(scored)} entries, the checklist {len(items)}; give one for each, in order")
    for number, (entry, item) in enumerate(zip(scored, items, strict=True), start=1):
        location = f"{name}, entry {number}"
        if entry.criterion != item.criterion:
            raise ValueError(f"{location}: criterion is not the checklist's; copy it word for word, in the same order")
        verifier = verifier_of(item)
        if verifier is None:
            if isinstance(entry.credit, str):
                raise ValueError(f"{location}: credit is a string where no scoring tool is named; give 0, 0.5 or 1")
        elif not isinstance(entry.credit, str):
            raise ValueError(f"{location}: credit is a number; give the call of {verifier} with what the response says")
        else:
            try:
                check_call(entry.credit, verifier)
            except ValueError as error:
                raise ValueError(f"{location}: credit is no call to run: {error}") from None


def _is_empty(predict: Any) -> bool:
    return predict is None or predict == () or (isinstance(predict, str) and not predict.strip())
