"""Worked answers to visual questions, and their values: comparison, misreading, and the verifier call for a value.

A worked answer has one sentence per relevant object, and the answer in a box at the end:

    at top-left a big red circle . at center a small red star . \\boxed{ 2 }

`read_response` parses any text: the objects that it describes, and its last box. A value is text: `3`, `B`, `CAT`,
`left`, or boxes such as `[ [ 21 , 21 , 312 , 312 ] ]`.
"""

import json
import random
import re
from typing import Any, NamedTuple

from rubricworks.verifiers import CannotVerify, bbox_verify
from rubricworks.world.scene.captions import SceneLike, describe
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import LETTERS, Query, answer_query, subjects_of
from rubricworks.world.scene.scene import CELLS

_BOXED = re.compile(r"\\boxed\s*\{([^{}]*)\}")


class ResponseParts(NamedTuple):
    """A parsed response."""

    objects: tuple[Mention, ...]
    words: tuple[str, ...]
    boxed: str | None
    """The trimmed content of the last box; None without one."""


def write_response(query: Query, view: SceneLike, *, options: tuple[str, ...] = (), boxed: str | None = None) -> str:
    """The worked answer that follows from the view.

    Args:
        options: the options of a multiple-choice question; the box then holds the letter.
        boxed: content of the box, instead of the answer that follows from the view.
    """
    objects = sorted(subjects_of(query, view), key=lambda item: CELLS.index(item.cell))
    steps = [f"at {item.cell} a {describe(item)} ." for item in objects]
    if query.task == "word" and view.word:
        steps.append(f"the word {view.word} .")
    answer = answer_query(query, view) if boxed is None else boxed
    if options and answer in options:
        answer = LETTERS[options.index(answer)]
    return " ".join([*steps, f"\\boxed{{ {answer if answer is not None else 'none'} }}"])


def read_response(text: str) -> ResponseParts:
    """Parse any text; broken or missing parts are left out."""
    boxes = _BOXED.findall(text)
    stated = mentions(_BOXED.sub(" . ", text))
    return ResponseParts(stated.objects, stated.words, boxes[-1].strip() if boxes else None)


HALF_OVERLAP, FULL_OVERLAP = 0.25, 0.75
"""Box overlaps from which a judge gives half and full credit."""

_NUMBER = re.compile(r"[-+]?\d{1,9}(?:\.\d{1,9})?")
_ROW = re.compile(r"\[([^\[\]]*)\]")
_REMARK = re.compile(r"\s*\([^()]*\)\s*\Z")


def same_value(value: str, reference: str) -> bool:
    """Return True if a judge reads both values as the same."""
    return credit_of(value, reference) == 1


def credit_of(value: str, reference: str) -> float:
    """The credit of a value: 0, 0.5 or 1 by overlap for boxes, all or nothing for anything else.

    A reference may list several values (`one of: a | b`) and end with a remark in brackets.
    """
    references = _REMARK.sub("", reference).removeprefix("one of: ").split(" | ")
    return max(_credit(value, expected) for expected in references)


def step_credit(item: Mention, reference: Mention) -> float:
    """The credit of a described object: 1 if size, colour and shape are right, 0.5 if colour or shape is, else 0."""
    right = [getattr(item, name) == getattr(reference, name) for name in ("size", "colour", "shape")]
    return 1 if all(right) else 0.5 if right[1] or right[2] else 0


def value_text(target: Any) -> str:
    """A target as text."""
    return target if isinstance(target, str) else json.dumps(target)


def misread(value: str, rng: random.Random) -> str:
    """A careless extractor's reading of a value: nothing, or something similar."""
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
    """The verifier call that predicts `value`; text stays text where the verifier expects a list of numbers."""
    if tool in ("bbox_verify", "point_verify"):
        rows = _rows(value)
        return f"{tool}(predict={json.dumps(rows) if rows or not value else repr(value)})"
    if tool == "list_verify":
        return f"{tool}(predict={[item.strip() for item in value.split(',') if item.strip()]!r})"
    if tool == "time_verify":
        return f"{tool}(predict={value!r}, pformat='%H:%M')"
    return f"{tool}(predict={value!r})"


def _credit(value: str, reference: str) -> float:
    if boxes := _rows(reference):
        try:
            overlap = bbox_verify(_rows(value), target=boxes)
        except CannotVerify:
            return 0
        return 1 if overlap >= FULL_OVERLAP else 0.5 if overlap >= HALF_OVERLAP else 0
    return float(_plain(value) == _plain(reference))


def _rows(text: str) -> list[list[int | float]]:
    """The lists of numbers in a text, of any length."""
    rows = ([float(number) for number in _NUMBER.findall(row)] for row in _ROW.findall(text))
    return [[int(number) if number.is_integer() else number for number in row] for row in rows if row]


def _plain(text: str) -> str:
    return " ".join(text.lower().strip(" .").split())
