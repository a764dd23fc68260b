"""Reads what the writer of abnormal responses answers: the response between tags, and a JSON dictionary of annotations.

<response>…</response> <extractions>{"1": {"extracted_value": "", "credit": 0, "rationale": "…"}}</extractions>
"""

import re
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, RootModel

from rubricworks.evaluation.audit.annotations import Annotation, annotated
from rubricworks.evaluation.audit.values import DESERVED
from rubricworks.llm.answers import parse_json, strip_thought
from rubricworks.rubrics import Rubric

_PARTS = re.compile(r"<response>(.*)</response>\s*<extractions>(.*)</extractions>", re.DOTALL)


class Draft(NamedTuple):
    """An abnormal response with what it deserves."""

    response: str
    annotations: tuple[Annotation, ...]
    """One for each criterion, in the rubric's order."""
    contradicted: tuple[str, ...]
    """Criteria on which the writer's own credit and the verifier's score of its value fall on different sides."""


def _credit(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("give the number 0, 0.5 or 1")
    return float(value) if isinstance(value, int) else value


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    extracted_value: JsonValue = ""
    credit: Annotated[Literal[0.0, 0.5, 1.0], BeforeValidator(_credit)]  # type: ignore[valid-type]
    rationale: str = ""


class _Entries(RootModel[dict[str, _Entry]]):
    pass


def read_draft(text: str, rubric: Rubric) -> Draft:
    """The response and its annotations.

    Raises:
        ValueError: a part is missing or broken; the message can be shown to the writer.
    """
    parts = _PARTS.search(strip_thought(text))
    if parts is None:
        raise ValueError(
            "it has no <response>…</response> followed by <extractions>…</extractions>, each once and complete"
        )
    response = parts[1].strip()
    if not response:
        raise ValueError("the response between its tags is empty")
    if "<response>" in response or "<extractions>" in response:
        raise ValueError("the tags <response> and <extractions> stand more than once")
    try:
        entries = parse_json(parts[2], _Entries).root
    except ValueError as error:
        raise ValueError(f"extractions: {error}") from None
    wanted = [str(number) for number in range(1, len(rubric.criteria) + 1)]
    if sorted(entries) != sorted(wanted):
        given = ", ".join(entries) or "none"
        raise ValueError(f"extractions has the ids {given}; give exactly one entry for each of {', '.join(wanted)}")
    annotations, contradicted = [], []
    for number, criterion in zip(wanted, rubric.criteria, strict=True):
        entry = entries[number]
        try:
            one = annotated(criterion, entry.extracted_value, entry.credit, entry.rationale)
        except ValueError as error:
            raise ValueError(f"extractions, entry {number}: {error}") from None
        annotations.append(one)
        if one.credit is not None and (one.credit >= DESERVED) != (entry.credit >= DESERVED):
            contradicted.append(criterion.criterion)
    return Draft(response, tuple(annotations), tuple(contradicted))
