"""Parser for answers of the abnormal-response writer: a response between tags and a JSON dictionary of annotations.

<response>…</response> <extractions>{"1": {"extracted_value": "", "credit": 0, "rationale": "…"}}</extractions>
"""

import re
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, RootModel

from rubricworks.evaluation.audit.annotations import Annotation, annotate
from rubricworks.evaluation.audit.values import CREDIT_THRESHOLD
from rubricworks.llm.answers import parse_json, split_thought
from rubricworks.rubrics import Rubric

_PARTS = re.compile(r"<response>(.*)</response>\s*<extractions>(.*)</extractions>", re.DOTALL)


class Draft(NamedTuple):
    """Abnormal response with its annotations."""

    response: str
    annotations: tuple[Annotation, ...]
    """One per criterion, in the rubric's order."""
    contradictions: tuple[str, ...]
    """Criteria on which the writer's credit and the verifier's score are on different sides of the threshold."""


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
    """Parse the writer's answer.

    Raises:
        ValueError: a part is missing or broken; the message can be shown to the writer.
    """
    parts = _PARTS.search(split_thought(text).answer)
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
    numbers = [str(number) for number in range(1, len(rubric.criteria) + 1)]
    if sorted(entries) != sorted(numbers):
        ids = ", ".join(entries) or "none"
        raise ValueError(f"extractions has the ids {ids}; give exactly one entry for each of {', '.join(numbers)}")
    annotations, contradictions = [], []
    for number, criterion in zip(numbers, rubric.criteria, strict=True):
        entry = entries[number]
        try:
            annotation = annotate(criterion, entry.extracted_value, entry.credit, entry.rationale)
        except ValueError as error:
            raise ValueError(f"extractions, entry {number}: {error}") from None
        annotations.append(annotation)
        if annotation.credit is not None and (annotation.credit >= CREDIT_THRESHOLD) != (
            entry.credit >= CREDIT_THRESHOLD
        ):
            contradictions.append(criterion.criterion)
    return Draft(response, tuple(annotations), tuple(contradictions))
