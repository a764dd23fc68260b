"""Questions about scenes read back, and are answered as looking at every object by hand answers them."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubricworks.world.scene.answers import read_response, write_response
from rubricworks.world.scene.captions import View
from rubricworks.world.scene.questions import (
    LETTERS,
    TASKS,
    Query,
    answer_query,
    box_of,
    box_text,
    draw_query,
    other_answers,
    parse_question,
    subjects_of,
    write_question,
)
from rubricworks.world.scene.render import BACKGROUND, SIDE, draw_scene
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, Scene, SceneObject, generate_scenes

SCENES = list(generate_scenes(11, 150))
ROW = {cell: CELLS.index(cell) // 3 for cell in CELLS}
COLUMN = {cell: CELLS.index(cell) % 3 for cell in CELLS}
colours, shapes = st.sampled_from(COLOURS), st.sampled_from(SHAPES)
queries = st.one_of(
    st.just(Query("count")),
    st.builds(lambda colour: Query("count", colour=colour), colours),
    st.builds(lambda shape: Query("count", shape=shape), shapes),
    st.builds(lambda cell: Query("colour", cell=cell), st.sampled_from(CELLS)),
    st.just(Query("word")),
    st.builds(lambda cell: Query("box", cell=cell), st.sampled_from(CELLS)),
    st.builds(
        lambda a, b, c, d, axis: Query("relation", a, b, c, d, axis),
        *(colours, shapes, colours, shapes, st.sampled_from(["side", "height"])),
    ),
)


def draw(count: int = 3) -> list[tuple[Scene, Query]]:
    """Questions of all tasks about many scenes."""
    rng = random.Random(2)
    pairs = [(scene, draw_query(scene, task, rng)) for scene in SCENES for task in TASKS for _ in range(count)]
    return [(scene, query) for scene, query in pairs if query is not None]


def by_hand(query: Query, scene: Scene) -> str | None:
    """The answer, from the scene alone."""
    if query.task == "word":
        return scene.word
    if query.task == "count":
        return str(
            sum(query.colour in (None, item.colour) and query.shape in (None, item.shape) for item in scene.objects)
        )
    if query.task in ("colour", "box"):
        (subject,) = [item for item in scene.objects if item.cell == query.cell]
        if query.task == "colour":
            return subject.colour
        reach = 14 if subject.size == "big" else 7
        x, y = 32 * COLUMN[subject.cell] + 16, 32 * ROW[subject.cell] + 16
        corners = [round(at / 96 * 1000) for at in (x - reach, y - reach, x + reach, y + reach)]
        return "[ [ " + " , ".join(map(str, corners)) + " ] ]"
    (subject,) = [item for item in scene.objects if (item.colour, item.shape) == (query.colour, query.shape)]
    expected = (query.other_colour, query.other_shape)
    (other,) = [item for item in scene.objects if (item.colour, item.shape) == expected]
    if query.axis == "side":
        return "left" if COLUMN[subject.cell] < COLUMN[other.cell] else "right"
    return "above" if ROW[subject.cell] < ROW[other.cell] else "below"


@given(queries)
def test_question_reads_back(query):
    assert parse_question(write_question(query)) == query


@given(queries, queries)
def test_first_question_of_a_longer_text_is_found_whatever_its_line_breaks(query, later):
    text = f"Look closely.\n{write_question(query).replace(' ', chr(10), 2)}  A red B green\n"
    assert parse_question(text) == query
    if later.task == query.task:
        both = parse_question(f"{write_question(query)} or: {write_question(later)}")
        assert both == query


@pytest.mark.parametrize(
    "text",
    [
        "",
        "how many cats are there ?",
        "what colour is the object at sea ?",
        "how many stars are there",
        "is the red star ?",
    ],
)
def test_other_text_is_no_question(text):
    assert parse_question(text) is None


def test_drawn_questions_have_the_answer_that_the_scene_gives():
    pairs = draw()
    assert {query.task for _, query in pairs} == set(TASKS)
    for scene, query in pairs:
        assert answer_query(query, scene) == by_hand(query, scene)


def test_scene_without_what_is_asked_about_gets_no_such_question():
    twins = tuple(SceneObject(cell=cell, size="big", colour="red", shape="star") for cell in ("top", "bottom"))
    scene, rng = Scene(objects=twins), random.Random(1)
    for task in ("relation", "word"):  # one of two like objects cannot be named, and nothing is written
        assert draw_query(scene, task, rng) is None
    for task in ("count", "colour", "box"):
        assert draw_query(scene, task, rng) is not None


def test_who_sees_too_little_has_no_answer():
    nothing = View(())
    assert answer_query(Query("count"), nothing) == "0"
    for query in (Query("colour", cell="top"), Query("word"), Query("box", cell="top")):
        assert answer_query(query, nothing) is None
    row = tuple(
        SceneObject(cell=cell, size="big", colour=colour, shape="star")
        for cell, colour in (("left", "red"), ("right", "blue"))
    )
    query = Query("relation", "red", "star", "blue", "star", "height")
    assert answer_query(query, View(row)) is None  # they stand level
    assert answer_query(query, View(row[:1])) is None


def test_answer_depends_on_its_subjects_alone():
    for scene, query in draw(1):
        only = View(subjects_of(query, scene), scene.word if query.task == "word" else None)
        assert answer_query(query, only) == answer_query(query, scene)


def test_other_answers_are_wrong_ones_of_the_same_kind():
    for scene, query in draw(1):
        answer = answer_query(query, scene)
        others = other_answers(query, answer)
        assert answer not in others
        assert len(set(others)) == len(others) >= 1
        if query.task == "relation":
            assert {answer, *others} in ({"left", "right"}, {"above", "below"})
        elif query.task == "colour":
            assert {answer, *others} == set(COLOURS)
        elif query.task == "count":
            assert all(other.isdecimal() for other in others)


def test_box_holds_the_object_as_it_is_drawn():
    for scene in SCENES[:60]:
        background = np.asarray(draw_scene(scene.model_copy(update={"objects": scene.objects[1:], "word": None})))
        pixels = np.asarray(draw_scene(scene.model_copy(update={"word": None})))
        rows, columns = np.nonzero((pixels != background).any(axis=2))
        box = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        item = scene.objects[0]
        stated = [corner / 1000 * SIDE for corner in box_of(item)]
        # A shape fills its box but for corners and a star's tips: no side is off by a quarter of the reach and a pixel.
        reach = 14 if item.size == "big" else 7
        assert max(abs(a - b) for a, b in zip(stated, box, strict=True)) <= reach / 4 + 1, item
        assert box_text(item) == "[ [ " + " , ".join(str(corner) for corner in box_of(item)) + " ] ]"
    assert tuple(background[0, 0]) == BACKGROUND


def test_worked_answer_reads_back_as_its_subjects_and_the_answer_in_the_last_box():
    for scene, query in draw(1):
        text = write_response(query, scene)
        parts = read_response(text)
        assert parts.boxed == by_hand(query, scene)
        objects = {(item.cell, item.size, item.colour, item.shape) for item in parts.objects}
        assert objects == {
            (subject.cell, subject.size, subject.colour, subject.shape) for subject in subjects_of(query, scene)
        }
        assert parts.words == ((scene.word,) if query.task == "word" else ())
        assert text == " ".join(text.split())


def test_worked_answer_to_multiple_choice_has_the_letter_in_its_box():
    scene = SCENES[0]
    query = next(query for other, query in draw() if other is scene and query.task == "relation")
    answer = by_hand(query, scene)
    options = (*other_answers(query, answer), answer)
    assert read_response(write_response(query, scene, options=options)).boxed == LETTERS[len(options) - 1]
    assert read_response(write_response(query, scene, options=options, boxed=options[0])).boxed == "A"
    assert read_response(write_response(query, scene, boxed="blue")).boxed == "blue"


def test_who_sees_nothing_boxes_none():
    assert write_response(Query("word"), View(())) == "\\boxed{ none }"


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        ("\\boxed{ 1 } no : \\boxed{2}", "2"),
        ("\\boxed{ 1 } and \\boxed{ 2", "1"),
        ("at top a big red star .", None),
        ("\\boxed{}", ""),
        ("\\boxed { a b }", "a b"),
    ],
)
def test_last_closed_box_counts(text, boxed):
    assert read_response(text).boxed == boxed


def test_words_in_a_box_are_no_statement_about_the_image():
    parts = read_response("at top a big red star . \\boxed{ blue circle }")
    assert [(item.cell, item.colour) for item in parts.objects] == [("top", "red")]
