"""The schemas that a server guides a model's answers by."""

from collections.abc import Iterator
from typing import Any

import pytest
from answer_schemas import answer_models

from rubricworks.llm.request import strict_schema


def numbers_in(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield schema
        for part in schema.values():
            yield from numbers_in(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from numbers_in(part)


@pytest.mark.parametrize("model", answer_models(), ids=lambda model: model.__name__)
def test_no_number_can_be_written_without_an_end(model):
    unbounded = [
        number for number in numbers_in(strict_schema(model)) if "enum" not in number and not number.keys() >= BOUNDS
    ]
    assert unbounded == []


BOUNDS = {"minimum", "maximum"}


def test_every_answer_schema_is_found():
    assert {"Judgment", "Scoring", "CaptionAssertions", "RubricDraft", "ChecklistDraft", "Exam"} <= {
        model.__name__ for model in answer_models()
    }
