"""Visual questions about scenes, in five tasks, and what somebody answers who sees a scene rightly or wrongly.

A question is English that reads back: `parse_question` is the inverse of `write_question`, so that scripted models have
nothing but the text, as a language model would. Answers are what stands in the box: a number, a colour, a side, a word,
or a bounding box in thousandths of the image's sides, as VLMs write them.
"""

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from rubricworks.world.scene.captions import Seen
from rubricworks.world.scene.render import CELL_SIDE, RADIUS, SIDE
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, WORDS, Scene, SceneObject, grid_position

Task = Literal["count", "colour", "relation", "word", "box"]
TASKS: tuple[Task, ...] = get_args(Task)
LETTERS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked. Which fields are set depends on the task."""

    task: Task
    colour: str | None = None
    """count: only objects of this colour; relation: of the subject."""
    shape: str | None = None
    """count: only objects of this shape; relation: of the subject."""
    other_colour: str | None = None
    """relation: of the object that the subject is compared with."""
    other_shape: str | None = None
    axis: Literal["side", "height"] | None = None
    """relation: left or right, or above or below."""
    cell: str | None = None
    """colour, box: of the subject."""


def write_question(query: Query) -> str:
    """The question, with its punctuation apart as a word-level tokenizer wants it."""
    match query.task:
        case "count":
            what = f"{query.shape}s" if query.shape else f"{query.colour} objects" if query.colour else "objects"
            return f"how many {what} are there ?"
        case "colour":
            return f"what colour is the object at {query.cell} ?"
        case "relation":
            choice = "left of or right of" if query.axis == "side" else "above or below"
            return f"is the {query.colour} {query.shape} {choice} the {query.other_colour} {query.other_shape} ?"
        case "word":
            return "which word is written ?"
        case "box":
            return f"what is the box of the object at {query.cell} ?"


def parse_question(text: str) -> Query | None:
    """The query of the first question of this world that the text holds; None if it holds none."""
    plain = " ".join(text.split())
    for pattern, task in _GRAMMAR:
        if match := pattern.search(plain):
            named = match.groupdict()
            axis = {"left of or right of": "side", "above or below": "height"}.get(named.pop("choice", ""))
            shape = named.pop("shapes", None) or named.pop("shape", None)
            return Query(task, shape=shape, axis=axis, **named)  # type: ignore[arg-type]
    return None


def draw_query(scene: Scene, task: Task, rng: random.Random) -> Query | None:
    """A question with one right answer about this scene; None where the task has none here."""
    nouns = Counter((item.colour, item.shape) for item in scene.objects)
    unique = [item for item in scene.objects if nouns[item.colour, item.shape] == 1]
    match task:
        case "count":
            kinds = [{}, {"colour": rng.choice(scene.objects).colour}, {"shape": rng.choice(scene.objects).shape}]
            return Query("count", **rng.choice(kinds))  # type: ignore[arg-type]
        case "colour" | "box":
            return Query(task, cell=rng.choice(scene.objects).cell)
        case "relation":
            pairs = [(a, b, axis) for a in unique for b in unique for axis in _axes(a, b)]
            if not pairs:
                return None
            subject, other, axis = rng.choice(pairs)
            return Query("relation", subject.colour, subject.shape, other.colour, other.shape, axis)
        case "word":
            return Query("word") if scene.word else None


def answer_query(query: Query, seen: Seen) -> str | None:
    """What somebody answers who sees this; None where they see nothing to answer with."""
    subjects = subjects_of(query, seen)
    match query.task:
        case "count":
            return str(len(subjects))
        case "colour":
            return subjects[0].colour if subjects else None
        case "word":
            return seen.word
        case "box":
            return box_text(subjects[0]) if subjects else None
        case "relation":
            if len(subjects) < 2:
                return None
            first, second = (grid_position(item.cell) for item in subjects[:2])
            if query.axis == "side":
                return None if first[1] == second[1] else "left" if first[1] < second[1] else "right"
            return None if first[0] == second[0] else "above" if first[0] < second[0] else "below"


def subjects_of(query: Query, seen: Seen) -> tuple[SceneObject, ...]:
    """The objects that the answer depends on; of a relation, the subject first."""

    def like(colour: str | None, shape: str | None) -> tuple[SceneObject, ...]:
        return tuple(item for item in seen.objects if colour in (None, item.colour) and shape in (None, item.shape))

    if query.task == "word":
        return ()
    if query.cell:
        return tuple(item for item in seen.objects if item.cell == query.cell)[:1]
    found = like(query.colour, query.shape)
    if query.task == "count":
        return found
    if query.task == "relation":
        return (*found[:1], *like(query.other_colour, query.other_shape)[:1])
    return found[:1]


def other_answers(query: Query, answer: str) -> list[str]:
    """Wrong answers of the right kind, in a fixed order: options of a multiple-choice question, plausible mistakes."""
    if query.task == "count":
        return [str(count) for count in range(6) if str(count) != answer]
    if query.task == "colour":
        return [colour for colour in COLOURS if colour != answer]
    if query.task == "word":
        return [word for word in WORDS if word != answer]
    if query.task == "relation":
        sides = ("left", "right") if query.axis == "side" else ("above", "below")
        return [side for side in sides if side != answer]
    boxes = (
        box_text(SceneObject(cell=cell, size=size, colour="red", shape="circle"))  # type: ignore[arg-type]
        for cell in ("top-left", "center", "bottom-right", "top-right", "bottom-left")
        for size in ("big", "small")
    )
    return [box for box in boxes if box != answer]


def box_of(item: SceneObject) -> tuple[int, int, int, int]:
    """[x1, y1, x2, y2] of an object, each 0 to 1000."""
    row, column = grid_position(item.cell)
    reach = RADIUS[item.size]
    x, y = column * CELL_SIDE + CELL_SIDE // 2, row * CELL_SIDE + CELL_SIDE // 2
    corners = (x - reach, y - reach, x + reach, y + reach)
    return tuple(round(1000 * corner / SIDE) for corner in corners)  # type: ignore[return-value]


def box_text(item: SceneObject) -> str:
    """The box as it stands in an answer, its tokens apart: `[ [ 21 , 21 , 312 , 312 ] ]`."""
    return f"[ [ {' , '.join(map(str, box_of(item)))} ] ]"


def _axes(subject: SceneObject, other: SceneObject) -> list[str]:
    (row, column), (other_row, other_column) = grid_position(subject.cell), grid_position(other.cell)
    return [*(["side"] if column != other_column else []), *(["height"] if row != other_row else [])]


_CELL = "|".join(sorted(CELLS, key=len, reverse=True))
_COLOUR, _SHAPE = f"(?:{'|'.join(COLOURS)})", f"(?:{'|'.join(SHAPES)})"
_GRAMMAR: tuple[tuple[re.Pattern[str], Task], ...] = tuple(
    (re.compile(pattern), task)  # type: ignore[misc]
    for pattern, task in (
        (rf"how many (?:(?P<shapes>{_SHAPE})s|(?:(?P<colour>{_COLOUR}) )?objects) are there \?", "count"),
        (rf"what colour is the object at (?P<cell>{_CELL}) \?", "colour"),
        (
            rf"is the (?P<colour>{_COLOUR}) (?P<shape>{_SHAPE}) (?P<choice>left of or right of|above or below) "
            rf"the (?P<other_colour>{_COLOUR}) (?P<other_shape>{_SHAPE}) \?",
            "relation",
        ),
        (r"which word is written \?", "word"),
        (rf"what is the box of the object at (?P<cell>{_CELL}) \?", "box"),
    )
)
