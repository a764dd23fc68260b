"""Export of questions about scenes as a Parquet file that any tool for question sets can read.

folder/questions/questions.parquet    image (bytes), question, answer, task, options, references

The images are those of `export_scenes` with the same seed and count, so the world's server knows them. `references`
holds one worked answer, with mistakes, for warming up a student. Some rows repeat another one in a different spelling,
as rows of public sets do.
"""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rubricworks.errors import UserError
from rubricworks.world.scene.answers import write_response
from rubricworks.world.scene.faults import Faults, perceive
from rubricworks.world.scene.questions import (
    LETTERS,
    TASKS,
    Query,
    Task,
    answer_query,
    draw_query,
    other_answers,
    write_question,
)
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes, rng_of

CHOICE_TASKS: tuple[Task, ...] = ("colour", "relation")
CHOICE_SHARE = 0.4
"""Share of these tasks' questions that are multiple choice; the others are open."""
MAX_OPTIONS = 4
NEEDS_OPTIONS_SHARE = 0.15
"""Share of multiple-choice questions (about one in forty of all) that refer to their options and mean nothing alone."""
NEEDS_OPTIONS = "which of these is right :"
DUPLICATE_SHARE = 0.03
"""Share of rows that are repeated with different spaces and capitals."""
RESPONSE_NOISE = Faults(
    omits_small=0.04,
    wrong_cell=0.02,
    wrong_size=0.04,
    wrong_colour=0.05,
    wrong_shape=0.04,
    stops_early=0.35,
    misses_word=0.05,
    misreads_word=0.05,
)
"""Perception faults behind the worked answers; a third of them leave out the last object."""
GUESS_SHARE = 0.6
"""Share of answers that ignore the picture: a guess in a box, and no step. They are the majority, so that a student
warmed up on them guesses at first and has something to unlearn.
"""
UNSOUND_SHARE = 0.05
"""Share of worked answers whose box contradicts their own steps: right steps do not always end right."""

_SCHEMA = pa.schema(
    [
        pa.field("image", pa.binary(), nullable=False),
        pa.field("question", pa.string(), nullable=False),
        pa.field("answer", pa.string(), nullable=False),
        pa.field("task", pa.string(), nullable=False),
        pa.field("options", pa.list_(pa.string())),
        pa.field("references", pa.list_(pa.string())),
    ]
)


class WorldQuestion(NamedTuple):
    """One row, without its image."""

    question: str
    """The text without its options."""
    answer: str
    """The right content of the box: the letter of a multiple-choice question."""
    task: Task
    options: tuple[str, ...]
    references: tuple[str, ...]


def export_questions(folder: Path | str, *, seed: int, count: int, per_scene: int) -> Path:
    """Write about `per_scene` questions on each of `count` scenes and return the folder of the file.

    The same call writes the same bytes. A scene with too few distinct questions gets fewer.
    """
    if per_scene < 1:
        raise UserError(f"{per_scene} questions a scene are asked for; export at least 1")
    place = Path(folder) / "questions"
    rows = []
    for scene, questions in world_questions(seed, count, per_scene):
        image = render_png(scene)
        rows += [{**question._asdict(), "image": image, "options": question.options or None} for question in questions]
    try:
        place.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), place / "questions.parquet", row_group_size=512)
    except OSError as error:
        raise UserError(
            f"{place}: cannot write questions ({error.strerror or error}); choose another folder or make room"
        ) from error
    return place


def world_questions(seed: int, count: int, per_scene: int) -> Iterator[tuple[Scene, list[WorldQuestion]]]:
    """Yield each scene with its questions, tasks as even as the scenes allow (few scenes show a word)."""
    task_counts: Counter[Task] = Counter()
    for index, scene in enumerate(generate_scenes(seed, count)):
        rng = rng_of("questions", seed, index)
        rows: list[WorldQuestion] = []
        for query in _draw_queries(scene, per_scene, task_counts, rng):
            rows.append(_row(scene, query, rng))
            if rng.random() < DUPLICATE_SHARE:
                rows.append(_respelled(rows[-1]))
        yield scene, rows


def _draw_queries(scene: Scene, count: int, task_counts: Counter[Task], rng: random.Random) -> list[Query]:
    """Draw distinct queries, each of the least frequent task so far that the scene allows."""
    queries: list[Query] = []
    for _ in range(count):
        for task in sorted(rng.sample(TASKS, len(TASKS)), key=lambda task: task_counts[task]):
            tries = (draw_query(scene, task, rng) for _ in range(4))
            query = next((query for query in tries if query and query not in queries), None)
            if query is not None:
                task_counts[task] += 1
                queries.append(query)
                break
    return queries


def _row(scene: Scene, query: Query, rng: random.Random) -> WorldQuestion:
    answer = answer_query(query, scene)
    assert answer is not None, f"{query} was drawn for a scene that does not answer it"
    question, options = write_question(query), _options(query, answer, rng)
    if options:
        if rng.random() < NEEDS_OPTIONS_SHARE:
            question = f"{NEEDS_OPTIONS} {question}"
        answer = LETTERS[options.index(answer)]
    return WorldQuestion(question, answer, query.task, options, (_worked_answer(scene, query, options, rng),))


def _options(query: Query, answer: str, rng: random.Random) -> tuple[str, ...]:
    if query.task not in CHOICE_TASKS or rng.random() >= CHOICE_SHARE:
        return ()
    others = other_answers(query, answer)
    options = [answer, *rng.sample(others, min(len(others), MAX_OPTIONS - 1))]
    rng.shuffle(options)
    return tuple(options)


def _worked_answer(scene: Scene, query: Query, options: tuple[str, ...], rng: random.Random) -> str:
    """A guess, or the answer from a noisy view of the scene; without a fitting option it guesses one."""
    if rng.random() < GUESS_SHARE:
        right = answer_query(query, scene)
        assert right is not None, "a drawn question has an answer"
        guess = rng.choice(options or (right, *other_answers(query, right)))
        return f"\\boxed{{ {LETTERS[options.index(guess)] if options else guess} }}"
    view = perceive(scene, RESPONSE_NOISE, rng)
    answer = answer_query(query, view)
    boxed = None
    if rng.random() < UNSOUND_SHARE:
        boxed = rng.choice([other for other in options or other_answers(query, answer or "") if other != answer])
    elif options and answer not in options:
        boxed = rng.choice(options)
    return write_response(query, view, options=options, boxed=boxed)


def _respelled(row: WorldQuestion) -> WorldQuestion:
    question = row.question.capitalize().replace(" ?", "?").replace(" ", "  ", 1)
    return row._replace(question=question)
