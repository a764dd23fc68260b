"""Values of answers in the scene world: whether two are the same, what one looks like misread, and its verifier's call.

A value is text: `3`, `B`, `CAT`, `left`, or boxes such as `[ [ 21 , 21 , 312 , 312 ] ]`.
"""

import json
import random
import re
from typing import Any

from rubricworks.verifiers import CannotVerify, bbox_verify
from rubricworks.world.scene.questions import LETTERS

HALF_OVERLAP, FULL_OVERLAP = 0.25, 0.75
"""Overlaps of boxes from which a judge gives half and full credit."""

_NUMBER = re.compile(r"[-+]?\d{1,9}(?:\.\d{1,9})?")
_ROW = re.compile(r"\[([^\[\]]*)\]")
_REMARK = re.compile(r"\s*\([^()]*\)\s*\Z")


def same_value(value: str, reference: str) -> bool:
    """Whether they say the same, as a judge reads them."""
    return credit_of(value, reference) == 1


def credit_of(value: str, reference: str) -> float:
    """0, 0.5 or 1: of boxes the overlap in three steps, of anything else all or nothing.

    A reference may be several (`one of: a | b`), and end with a remark in brackets.
    """
    wanted = _REMARK.sub("", reference).removeprefix("one of: ").split(" | ")
    return max(_credit(value, one) for one in wanted)


def value_text(target: Any) -> str:
    """A target as text."""
    return target if isinstance(target, str) else json.dumps(target)


def misread(value: str, rng: random.Random) -> str:
    """What a careless extractor makes of a value: nothing, or something like it."""
    if rng.random() < 0.5:
        return ""
    if numbers := list(_NUMBER.finditer(value)):
        place = rng.choice(numbers)
        return (
            f"{value[: place.start()]}{int(float(place[0])) + (1 if len(numbers) == 1 else 200)}{value[place.end() :]}"
        )
    if value in LETTERS:
        return LETTERS[(LETTERS.index(value) + 1) % len(LETTERS)]
    return value[:-1]


def call_of(tool: str, value: str) -> str:
    """The verifier's call with a value; one that is no list of numbers where one belongs stays as it is written."""
    if tool in ("bbox_verify", "point_verify"):
        rows = _rows(value)
        return f"{tool}(predict={json.dumps(rows) if rows or not value else repr(value)})"
    if tool == "list_verify":
        return f"{tool}(predict={[item.strip() for item in value.split(',') if item.strip()]!r})"
    if tool == "time_verify":
        return f"{tool}(predict={value!r}, pformat='%H:%M')"
    return f"{tool}(predict={value!r})"


def _credit(value: str, wanted: str) -> float:
    if boxes := _rows(wanted):
        try:
            overlap = bbox_verify(_rows(value), target=boxes)
        except CannotVerify:
            return 0
        return 1 if overlap >= FULL_OVERLAP else 0.5 if overlap >= HALF_OVERLAP else 0
    return float(_plain(value) == _plain(wanted))


def _rows(text: str) -> list[list[int | float]]:
    """The lists of numbers in a text, of any length."""
    rows = ([float(number) for number in _NUMBER.findall(row)] for row in _ROW.findall(text))
    return [[int(number) if number.is_integer() else number for number in row] for row in rows if row]


def _plain(text: str) -> str:
    return " ".join(text.lower().strip(" .").split())
