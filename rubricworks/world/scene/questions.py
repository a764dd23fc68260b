"""Visual questions about scenes, in five tasks, and their answers for a scene or for a mistaken view of one.

`parse_question` is the inverse of `write_question`, so that scripted models work from the text alone, as a language
model would. An answer is the content of the final box: a number, a colour, a side, a word, or a bounding box in
thousandths of the image's sides, as VLMs write them.
"""

import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Literal, get_args

from rubricworks.world.scene.captions import SceneLike
from rubricworks.world.scene.render import CELL_SIDE, RADIUS, SIDE
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, WORDS, Scene, SceneObject, grid_position

Task = Literal["count", "colour", "relation", "word", "box"]
TASKS: tuple[Task, ...] = get_args(Task)
Axis = Literal["side", "height"]
LETTERS = "ABCDEF"


@dataclass(frozen=True, slots=True)
class Query:
    """A question as a value. The task determines which fields are set."""

    task: Task
    colour: str | None = None
    """count: only objects of this colour; relation: of the subject."""
    shape: str | None = None
    """count: only objects of this shape; relation: of the subject."""
    other_colour: str | None = None
    """relation: of the object that the subject is compared with."""
    other_shape: str | None = None
    axis: Axis | None = None
    """relation: left or right, or above or below."""
    cell: str | None = None
    """colour, box: of the subject."""


def write_question(query: Query) -> str:
    """The question in English, with punctuation set apart for a word-level tokenizer."""
    match query.task:
        case "count":
            noun = f"{query.shape}s" if query.shape else f"{query.colour} objects" if query.colour else "objects"
            return f"how many {noun} are there ?"
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
            fields = match.groupdict()
            axis = {"left of or right of": "side", "above or below": "height"}.get(fields.pop("choice", ""))
            shape = fields.pop("shapes", None) or fields.pop("shape", None)
            return Query(task, shape=shape, axis=axis, **fields)  # type: ignore[arg-type]
    return None


def draw_query(scene: Scene, task: Task, rng: random.Random) -> Query | None:
    """Draw a question with one right answer about this scene; None if the task has none here."""
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


def answer_query(query: Query, view: SceneLike) -> str | None:
    """The answer that follows from the view; None if the view does not answer the question."""
    subjects = subjects_of(query, view)
    match query.task:
        case "count":
            return str(len(subjects))
        case "colour":
            return subjects[0].colour if subjects else None
        case "word":
            return view.word
        case "box":
            return box_text(subjects[0]) if subjects else None
        case "relation":
            if len(subjects) < 2:
                return None
            first, second = (grid_position(item.cell) for item in subjects[:2])
            if query.axis == "side":
                return None if first[1] == second[1] else "left" if first[1] < second[1] else "right"
            return None if first[0] == second[0] else "above" if first[0] < second[0] else "below"


def subjects_of(query: Query, view: SceneLike) -> tuple[SceneObject, ...]:
    """The objects that the answer depends on; for a relation, the subject first."""

    def like(colour: str | None, shape: str | None) -> tuple[SceneObject, ...]:
        return tuple(item for item in view.objects if colour in (None, item.colour) and shape in (None, item.shape))

    if query.task == "word":
        return ()
    if query.cell:
        return tuple(item for item in view.objects if item.cell == query.cell)[:1]
    subjects = like(query.colour, query.shape)
    if query.task == "count":
        return subjects
    if query.task == "relation":
        return (*subjects[:1], *like(query.other_colour, query.other_shape)[:1])
    return subjects[:1]


def other_answers(query: Query, answer: str) -> list[str]:
    """Wrong answers of the right kind, in a fixed order, for multiple-choice options and plausible mistakes."""
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
        box_text(SceneObject(cell=cell, size=size, colour="red", shape="circle"))
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
    """The box as an answer writes it, its tokens set apart: `[ [ 21 , 21 , 312 , 312 ] ]`."""
    return f"[ [ {' , '.join(map(str, box_of(item)))} ] ]"


def _axes(subject: SceneObject, other: SceneObject) -> list[Axis]:
    (row, column), (other_row, other_column) = grid_position(subject.cell), grid_position(other.cell)
    axes: list[Axis] = []
    if column != other_column:
        axes.append("side")
    if row != other_row:
        axes.append("height")
    return axes


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
