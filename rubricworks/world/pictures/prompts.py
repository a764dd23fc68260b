"""Prompts for pictures in GenEval's six tasks, with their metadata and pictures that show them.

A prompt is drawn as a specification in GenEval's own form (`include`, `exclude`, see `metrics.geneval`), so that the
official rules decide what is correct, and is said in one of several lengths. A prompt and its picture are functions of
(seed, index) alone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, NamedTuple, get_args

from rubricworks.world.pictures.drawing import COLOURS, GRID, SHAPES, Shape, Thing
from rubricworks.world.scene.scene import rng_of

Task = Literal["single_object", "two_object", "counting", "colors", "position", "color_attr"]
TASKS: tuple[Task, ...] = get_args(Task)
Relation = Literal["left of", "right of", "above", "below"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)
NUMBERS = {2: "two", 3: "three", 4: "four"}
PLURAL: dict[Shape, str] = {"circle": "circles", "square": "squares", "triangle": "triangles", "cross": "crosses"}
TEMPLATES = ("{}", "a picture of {}", "a plain picture of {} and nothing else")
"""A prompt at three lengths; a training draws one."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Requirement of a prompt: a shape, perhaps with a colour, some times."""

    shape: Shape
    colour: str | None = None
    count: int = 1

    @property
    def words(self) -> str:
        colour = f"{self.colour} " if self.colour else ""
        if self.count > 1:
            return f"{NUMBERS[self.count]} {colour}{PLURAL[self.shape]}"
        return f"a {colour}{self.shape}"


class Wish(NamedTuple):
    """Content of a prompt."""

    task: Task
    first: Subject
    second: Subject | None = None
    relation: Relation | None = None
    """Of the first to the second."""

    @property
    def words(self) -> str:
        if self.second is None:
            return self.first.words
        return f"{self.first.words} {self.relation or 'and'} {self.second.words}"

    def metadata(self) -> dict[str, object]:
        """The prompt's requirements in GenEval's form; its position refers to the entry before."""
        subjects = [self.first] if self.second is None else [self.second, self.first]
        if self.second is not None and self.relation is None:
            subjects.reverse()
        include: list[dict[str, object]] = []
        for subject in subjects:
            entry: dict[str, object] = {"class": subject.shape, "count": subject.count}
            if subject.colour:
                entry["color"] = subject.colour
            include.append(entry)
        if self.relation:
            include[1]["position"] = [self.relation, 0]
        metadata: dict[str, object] = {"tag": self.task, "include": include, "prompt": self.words}
        if self.task == "counting":
            metadata["exclude"] = [{"class": self.first.shape, "count": self.first.count + 1}]
        return metadata


def wishes(task: Task) -> list[Wish]:
    """All prompts of a task, in a fixed order."""
    pairs = [(a, b) for a, b in product(SHAPES, SHAPES) if a != b]
    if task == "single_object":
        return [Wish(task, Subject(shape)) for shape in SHAPES]
    if task == "two_object":
        return [Wish(task, Subject(a), Subject(b)) for a, b in pairs]
    if task == "counting":
        return [Wish(task, Subject(shape, count=count)) for shape in SHAPES for count in NUMBERS]
    if task == "colors":
        return [Wish(task, Subject(shape, colour)) for shape in SHAPES for colour in COLOURS]
    if task == "position":
        return [Wish(task, Subject(a), Subject(b), relation) for a, b in pairs for relation in RELATIONS]
    colours = [(a, b) for a, b in product(COLOURS, COLOURS) if a != b]
    return [Wish(task, Subject(a, colour), Subject(b, other)) for a, b in pairs for colour, other in colours]


def picture_of(wish: Wish, rng: random.Random) -> list[Thing]:
    """A picture that shows the prompt and nothing else; what the prompt leaves open is drawn at random."""
    subjects = [wish.first, *([wish.second] if wish.second else [])]
    shapes = [subject.shape for subject in subjects for _ in range(subject.count)]
    cells = rng.sample([(row, column) for row in range(GRID) for column in range(GRID)], len(shapes))
    if wish.relation:
        cells = list(_cells_in_relation(wish.relation, rng))
    colours = [subject.colour or rng.choice(COLOURS) for subject in subjects for _ in range(subject.count)]
    return [
        Thing(shape, colour, *cell)  # type: ignore[arg-type]
        for shape, colour, cell in zip(shapes, colours, cells, strict=True)
    ]


def _cells_in_relation(relation: Relation, rng: random.Random) -> tuple[tuple[int, int], tuple[int, int]]:
    """Cells in one row or column, so that GenEval's rule sees the relation and no other."""
    lower, upper = sorted(rng.sample(range(GRID), 2))
    other = rng.randrange(GRID)
    near, far = (lower, upper) if relation in ("left of", "above") else (upper, lower)
    if relation in ("left of", "right of"):
        return (other, near), (other, far)
    return (near, other), (far, other)


class Pair(NamedTuple):
    """A picture and its caption, for the pretraining of a generator."""

    caption: str
    things: list[Thing]


def pairs(seed: int, count: int, *, mismatched: float = 0.0, coloured: float = 0.0) -> Iterator[Pair]:
    """Yield captioned pictures, tasks in turn.

    Args:
        mismatched: share of the captions that describe another picture of the task.
        coloured: share of the captions that say the colour of every shape, whatever the task.
    """
    by_task = {task: wishes(task) for task in TASKS}
    for index in range(count):
        rng = rng_of("pair", seed, index)
        task = TASKS[index % len(TASKS)]
        wish = rng.choice(by_task[task])
        shown = rng.choice(by_task[task]) if rng.random() < mismatched else wish
        if coloured and rng.random() < coloured:
            is_own = shown is wish
            wish = _coloured(wish, rng)
            shown = wish if is_own else _coloured(shown, rng)
        yield Pair(rng.choice(TEMPLATES).format(wish.words), picture_of(shown, rng))


def _coloured(wish: Wish, rng: random.Random) -> Wish:
    """The prompt with a colour for each of its subjects."""

    def colour(subject: Subject) -> Subject:
        return subject if subject.colour else replace(subject, colour=rng.choice(COLOURS))

    return wish._replace(first=colour(wish.first), second=wish.second and colour(wish.second))
