"""Names of served models in a recipe: `{serve: NAME}` stands for the definition in the section `serve`."""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from rubricworks.llm.served import ServedModel

SECTION = "serve"
_WITHOUT_ENDPOINTS = frozenset({SECTION, "arms", "cluster", "prices", "extra_body"})
_PLACEHOLDER = {"model": "./none"}
"""Definition in place of an invalid one, whose mistakes are reported once: in the section, not wherever it is named."""


def with_definitions(data: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe's settings with the whole definition in place of each `serve: NAME` of an endpoint."""
    section = data.get(SECTION)
    definitions = section if isinstance(section, dict) else {}
    return {key: value if key in _WITHOUT_ENDPOINTS else _filled(value, definitions) for key, value in data.items()}


def _filled(value: Any, definitions: Mapping[Any, Any]) -> Any:
    if isinstance(value, list):
        return [_filled(inner, definitions) for inner in value]
    if not isinstance(value, dict):
        return value
    filled = {key: inner if key in _WITHOUT_ENDPOINTS else _filled(inner, definitions) for key, inner in value.items()}
    if isinstance(name := value.get(SECTION), str):
        filled[SECTION] = _definition(name, definitions)
    return filled


def _definition(name: str, definitions: Mapping[Any, Any]) -> dict[str, Any]:
    if name not in definitions:
        close = difflib.get_close_matches(name, [str(known) for known in definitions], 1)
        there = ", ".join(map(str, definitions))
        hint = f"did you mean {close[0]}?" if close else f"there are {there}" if there else "the recipe defines none"
        return {"name": name, "unknown": hint}
    definition = definitions[name]
    try:
        ServedModel.model_validate({**definition, "name": name})
    except (ValidationError, TypeError):
        definition = _PLACEHOLDER
    return {**definition, "name": name}
