"""Scenes: two to four plain objects on a 3x3 grid, some with a word; the ground truth of captions.

A scene is a function of (seed, index) alone, the same in every process and on every machine. `generate_scenes` skips
repeats, so that no held-out scene is also a training scene.
"""

import hashlib
import random
from collections.abc import Iterator
from typing import Literal, NamedTuple, Self, get_args

from pydantic import BaseModel, Field, model_validator

Cell = Literal[
    "top-left", "top", "top-right", "left", "center", "right", "bottom-left", "bottom", "bottom-right"
]  # fmt: skip
Shape = Literal["circle", "square", "triangle", "star"]
Colour = Literal["red", "green", "blue", "yellow", "purple", "black"]
Size = Literal["big", "small"]
RelationKind = Literal["left of", "above"]

CELLS: tuple[Cell, ...] = get_args(Cell)
"""Cells in reading order, row by row; captions list objects in this order."""
SHAPES: tuple[Shape, ...] = get_args(Shape)
COLOURS: tuple[Colour, ...] = get_args(Colour)
SIZES: tuple[Size, ...] = get_args(Size)
WORDS = ("CAT", "SUN", "MAP", "BOX", "HEN", "LEG")
WORD_CELL: Cell = "bottom"
"""The cell of the word; scenes with a word have no object there."""
WORD_SHARE = 0.3
MIN_OBJECTS, MAX_OBJECTS = 2, 4


class SceneObject(BaseModel, extra="forbid", frozen=True):
    """One object with its cell and attributes."""

    cell: Cell
    size: Size
    colour: Colour
    shape: Shape


class Scene(BaseModel, extra="forbid", frozen=True):
    """The objects, in reading order with at most one per cell, and the optional word."""

    objects: tuple[SceneObject, ...] = Field(min_length=MIN_OBJECTS, max_length=MAX_OBJECTS)
    word: str | None = None

    @model_validator(mode="after")
    def _one_object_per_cell_in_reading_order(self) -> Self:
        places = [CELLS.index(item.cell) for item in self.objects]
        if places != sorted(set(places)):
            raise ValueError("objects must stand in reading order, at most one per cell")
        if self.word is not None and CELLS.index(WORD_CELL) in places:
            raise ValueError(f"the cell {WORD_CELL!r} holds the word and cannot hold an object")
        return self


class Relation(NamedTuple):
    """`subject` is `kind` `other`, by their cells."""

    subject: SceneObject
    kind: RelationKind
    other: SceneObject


def rng_of(*parts: object) -> random.Random:
    """A generator seeded by the parts' text alone (Python's own hash differs from process to process)."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


def grid_position(cell: str) -> tuple[int, int]:
    """(row, column) of a cell, both 0 to 2."""
    return divmod(CELLS.index(cell), 3)


def generate_scene(seed: int, index: int) -> Scene:
    """The scene number `index` of `seed`."""
    rng = rng_of("scene", seed, index)
    word = rng.choice(WORDS) if rng.random() < WORD_SHARE else None
    free = [cell for cell in CELLS if word is None or cell != WORD_CELL]
    occupied = set(rng.sample(free, rng.randint(MIN_OBJECTS, MAX_OBJECTS)))
    objects = tuple(
        SceneObject(cell=cell, size=rng.choice(SIZES), colour=rng.choice(COLOURS), shape=rng.choice(SHAPES))
        for cell in CELLS
        if cell in occupied
    )
    return Scene(objects=objects, word=word)


def generate_scenes(seed: int, count: int) -> Iterator[Scene]:
    """Yield `count` different scenes of `seed`; a longer run begins with the scenes of a shorter one."""
    scenes: set[Scene] = set()
    index = 0
    while len(scenes) < count:
        scene = generate_scene(seed, index)
        index += 1
        if scene not in scenes:
            scenes.add(scene)
            yield scene


def relations(objects: tuple[SceneObject, ...]) -> tuple[Relation, ...]:
    """The relations of each object to the next ones: "left of" by column, else "above" by row."""
    result = []
    for first, subject in enumerate(objects):
        for other in objects[first + 1 :]:
            (row, column), (other_row, other_column) = grid_position(subject.cell), grid_position(other.cell)
            if column < other_column:
                result.append(Relation(subject, "left of", other))
            elif column > other_column:
                result.append(Relation(other, "left of", subject))
            elif row < other_row:
                result.append(Relation(subject, "above", other))
    return tuple(result)
