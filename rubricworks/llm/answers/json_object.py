"""Parsing of the JSON object that a model wrote.

Parsing is strict where leniency could invent a verdict: an object with a repeated key is malformed, NaN and Infinity
are not numbers, and JSON must be the whole answer or its only fenced block, at the end. A model's reasoning is skipped
(`thoughts`).
"""

import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rubricworks.llm.answers.thoughts import split_thought

Model = TypeVar("Model", bound=BaseModel)

_FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can hold but tables cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def parse_json(text: str, response: type[Model]) -> Model:
    """Parse and validate the JSON object in a model's text, in which there may be thoughts.

    Raises:
        ValueError: the text holds no valid object; the message can be shown to the model.
    """
    return parse_object(split_thought(text).answer, response)


def parse_object(text: str, response: type[Model]) -> Model:
    """Parse and validate the JSON object in an answer; raises as `parse_json`."""
    text = text.strip()
    if not text.startswith("{"):
        fenced = list(_FENCED.finditer(text))
        if len(fenced) != 1 or fenced[0].end() != len(text):
            raise ValueError("the answer is not one JSON object")
        text = fenced[0][1].strip()
    try:
        value, end = _DECODER.raw_decode(text)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if "\\u" in text:
            value = json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))
        validated: Model = response.__pydantic_validator__.validate_python(value)  # `model_validate` costs a fifth more
        return validated
    except json.JSONDecodeError as error:
        raise ValueError(f"the answer is not valid JSON: {error.msg} at character {error.pos}") from error
    except ValidationError as error:
        raise ValueError(_describe_faults(error)) from error
    except RecursionError as error:
        raise ValueError("the answer's JSON is nested too deeply") from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object holds the key {repeated!r} more than once")
    return fields


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_reject_constant)


def _describe_faults(error: ValidationError, limit: int = 5) -> str:
    """List validation errors by location, without the model's own text, as the message may be sent back to it."""
    faults = [f"{'.'.join(map(str, fault['loc'])) or 'the answer'}: {fault['msg']}" for fault in error.errors()]
    more = f"; and {len(faults) - limit} more" if len(faults) > limit else ""
    return "; ".join(faults[:limit]) + more
