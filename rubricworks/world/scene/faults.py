"""Perception faults of a captioner: probabilities of omitting, mistaking and inventing, applied to a scene."""

import random

from pydantic import BaseModel, Field

from rubricworks.world.scene.captions import View
from rubricworks.world.scene.scene import (
    CELLS,
    COLOURS,
    SHAPES,
    SIZES,
    WORDS,
    Cell,
    Colour,
    Scene,
    SceneObject,
    grid_position,
)

_LOOKS_LIKE: dict[Colour, Colour] = {
    "red": "purple",
    "purple": "red",
    "blue": "purple",
    "green": "blue",
    "yellow": "green",
    "black": "blue",
}


class Faults(BaseModel, extra="forbid", frozen=True):
    """Probabilities, each per object unless stated otherwise."""

    omits_big: float = Field(default=0, ge=0, le=1)
    omits_small: float = Field(default=0, ge=0, le=1)
    wrong_cell: float = Field(default=0, ge=0, le=1)
    """The object is placed in a neighbouring cell."""
    wrong_size: float = Field(default=0, ge=0, le=1)
    wrong_colour: float = Field(default=0, ge=0, le=1)
    """The colour becomes the one that looks most like it."""
    wrong_shape: float = Field(default=0, ge=0, le=1)
    stops_early: float = Field(default=0, ge=0, le=1)
    """Per caption: the last object in reading order is left out."""
    invents: float = Field(default=0, ge=0, le=1)
    """Per caption: one object is added in an empty cell."""
    misses_word: float = Field(default=0, ge=0, le=1)
    """Per caption with a word: it is not mentioned."""
    misreads_word: float = Field(default=0, ge=0, le=1)
    """Per caption with a word: another one is read."""


def perceive(scene: Scene, faults: Faults, rng: random.Random) -> View:
    """The view of a captioner with these faults: at least one object, in reading order."""
    omissions = {"big": faults.omits_big, "small": faults.omits_small}
    objects = [item for item in scene.objects if rng.random() >= omissions[item.size]] or [rng.choice(scene.objects)]
    if len(objects) > 1 and rng.random() < faults.stops_early:
        objects = sorted(objects, key=lambda item: CELLS.index(item.cell))[:-1]
    objects = [_distort(item, faults, rng) for item in objects]
    if rng.random() < faults.invents:
        occupied = {item.cell for item in (*scene.objects, *objects)}
        cell = rng.choice([cell for cell in CELLS if cell not in occupied])
        objects.append(
            SceneObject(cell=cell, size=rng.choice(SIZES), colour=rng.choice(COLOURS), shape=rng.choice(SHAPES))
        )
    objects.sort(key=lambda item: CELLS.index(item.cell))
    word = scene.word
    if word is not None:
        if rng.random() < faults.misses_word:
            word = None
        elif rng.random() < faults.misreads_word:
            word = rng.choice([other for other in WORDS if other != word])
    return View(tuple(objects), word)


def _distort(item: SceneObject, faults: Faults, rng: random.Random) -> SceneObject:
    changes: dict[str, str] = {}
    if rng.random() < faults.wrong_cell:
        changes["cell"] = rng.choice(_neighbours(item.cell))
    if rng.random() < faults.wrong_size:
        changes["size"] = "small" if item.size == "big" else "big"
    if rng.random() < faults.wrong_colour:
        changes["colour"] = _LOOKS_LIKE[item.colour]
    if rng.random() < faults.wrong_shape:
        changes["shape"] = rng.choice([shape for shape in SHAPES if shape != item.shape])
    return item.model_copy(update=changes) if changes else item


def _neighbours(cell: Cell) -> list[Cell]:
    row, column = grid_position(cell)
    neighbours = []
    for other in CELLS:
        other_row, other_column = grid_position(other)
        if abs(row - other_row) + abs(column - other_column) == 1:
            neighbours.append(other)
    return neighbours
