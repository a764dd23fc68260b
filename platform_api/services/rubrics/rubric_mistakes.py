"""Mistakes of an edited rubric: the field of the form that each is in, and what to write there."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

RUBRIC = "rubric"
"""Place of a mistake that no single field has."""


def form_mistakes(error: ValidationError, places: Sequence[int]) -> dict[str, str]:
    """Field of the form, `2-weight` → what is wrong with it and what to write.

    Args:
        places: place in the form of each criterion that was validated.
    """
    mistakes = {}
    for one in error.errors():
        match one["loc"]:
            case ("criteria", int(number), str(field), *_):
                mistakes[f"{places[number]}-{field}"] = _explain(one)
            case _:
                mistakes[RUBRIC] = _explain(one)
    return mistakes


def _explain(mistake: Any) -> str:
    given = mistake["input"]
    match mistake["type"]:
        case "float_parsing" | "float_type" | "finite_number":
            what = f"{given!r} is no number" if given else "there is no number"
            return f"{what}; write one such as 2, or -1 for a pitfall"
        case "string_too_short":
            return "is empty; say what is to be checked, or remove the criterion"
        case "string_too_long":
            return f"has {len(given):,} characters; shorten it to {mistake['ctx']['max_length']:,}"
        case "too_short":
            return "no criterion is left; a rubric needs at least one"
        case _:  # a check of the rubric's own
            return str(mistake["msg"]).removeprefix("Value error, ")
