"""Every style can be read back, and broken captions are read strictly."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.world.scene.captions import STYLES, View, write_caption
from rubricworks.world.scene.export import noisy_caption
from rubricworks.world.scene.faults import Faults, perceive
from rubricworks.world.scene.parsing import Mention, StatedRelation, mentions
from rubricworks.world.scene.scene import (
    CELLS,
    COLOURS,
    SHAPES,
    SIZES,
    WORDS,
    Scene,
    SceneObject,
    generate_scene,
    relations,
)

objects = st.builds(
    SceneObject,
    cell=st.sampled_from(CELLS),
    size=st.sampled_from(SIZES),
    colour=st.sampled_from(COLOURS),
    shape=st.sampled_from(SHAPES),
)
views = st.builds(View, st.lists(objects, min_size=1, max_size=7).map(tuple), st.none() | st.sampled_from(WORDS))
CELLS_THAT_NEVER_MERGE = [cell for cell in CELLS if cell not in ("left", "right", "center")]  # "top left" is one place
TOKENS = [
    *CELLS_THAT_NEVER_MERGE,
    *SIZES,
    *COLOURS,
    *SHAPES,
    "CAT",
    "a",
    "at",
    "the",
    ".",
    ",",
    "and",
    "is",
    "3",
    "objects",
]


def stated(item: SceneObject) -> Mention:
    return Mention(item.cell, item.size, item.colour, item.shape)


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@given(view=views)
@settings(max_examples=60)
def test_caption_of_any_view_parses_back_to_it(style: str, view: View):
    result = mentions(write_caption(view, style))
    assert result.objects == tuple(map(stated, view.objects))
    assert result.words == ((view.word,) if view.word else ())
    assert result.counts in ((), (len(view.objects),))
    true_relations = {
        (stated(subject)._replace(cell=None), kind, stated(other)._replace(cell=None))
        for subject, kind, other in relations(view.objects)
    }
    assert set(map(tuple, result.relations)) <= true_relations


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=44))
@settings(max_examples=300)
def test_no_attribute_of_any_token_sequence_is_lost_or_made_up(tokens: list[str]):
    result = mentions(" ".join(tokens))
    for attribute, values in (("cell", CELLS), ("size", SIZES), ("colour", COLOURS), ("shape", SHAPES)):
        gathered = {getattr(item, attribute) for item in result.objects} - {None}
        assert gathered == set(tokens) & set(values)
    assert len(result.objects) >= sum(token in SHAPES for token in tokens)


@given(text=st.text(max_size=300))
@settings(max_examples=200)
def test_any_text_parses(text: str):
    mentions(text)


def test_canonical_style_puts_one_position_token_first():
    scene = Scene(
        objects=(
            SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
            SceneObject(cell="center", size="small", colour="blue", shape="square"),
        ),
        word="CAT",
    )
    assert write_caption(scene) == "at top-left a big red circle . at center a small blue square . the word CAT ."


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("at top-left a big red", [Mention("top-left", "big", "red")]),
        ("at at center a a small small blue square", [Mention("center", "small", "blue", "square")]),
        ("a big red blue circle at left", [Mention(None, "big", "red"), Mention("left", None, "blue", "circle")]),
        ("at top at left a big red star", [Mention("top"), Mention("left", "big", "red", "star")]),
        ("circle circle", [Mention(shape="circle"), Mention(shape="circle")]),
        (
            "at center a big red star at left a small blue square",
            [Mention("center", "big", "red", "star"), Mention("left", "small", "blue", "square")],
        ),
        (
            "There's a Large RED circle in the upper-left, and a tiny violet star at the bottom centre!",
            [Mention("top-left", "big", "red", "circle"), Mention("bottom", "small", "purple", "star")],
        ),
        ("", []),
        ("an absolutely correct and complete description .", []),
    ],
)
def test_broken_or_free_captions_are_read_strictly(caption: str, expected: list[Mention]):
    assert list(mentions(caption).objects) == expected


def test_word_takes_its_place_with_it_and_a_missing_word_is_none():
    result = mentions("the word cat is written at the bottom . at top a big red star .")
    assert result.words == ("CAT",)
    assert result.objects == (Mention("top", "big", "red", "star"),)
    assert mentions("the word .").words == ()
    assert mentions("the word at top a big red star").words == ()


def test_counts_in_digits_and_words():
    assert mentions("there are 3 objects . I see two objects . there is 1 object . objects 4").counts == (3, 2, 1)


def test_relations_are_normalised_and_name_no_objects():
    result = mentions("the small blue square is right of the big red star . the black circle is below the star .")
    assert result.objects == ()
    assert result.relations == (
        StatedRelation(Mention(None, "big", "red", "star"), "left of", Mention(None, "small", "blue", "square")),
        StatedRelation(Mention(shape="star"), "above", Mention(None, None, "black", "circle")),
    )


def test_faults_happen_at_their_stated_rates():
    rng = random.Random(0)
    faults = Faults(omits_small=0.4, wrong_colour=0.25, wrong_size=0.1, wrong_shape=0.2, invents=0.3)
    survivors = {"big": 0, "small": 0}
    totals = {"big": 0, "small": 0}
    wrong = {"size": 0, "colour": 0, "shape": 0}
    invented = 0
    for index in range(3000):
        scene = generate_scene(21, index)
        truth = {item.cell: item for item in scene.objects}
        view = perceive(scene, faults, rng)
        for item in scene.objects:
            totals[item.size] += 1
        for item in view.objects:
            original = truth.get(item.cell)
            if original is None:
                invented += 1
                continue
            survivors[original.size] += 1
            for attribute in wrong:
                wrong[attribute] += getattr(item, attribute) != getattr(original, attribute)
    total = sum(survivors.values())
    assert survivors["big"] == totals["big"]
    assert survivors["small"] / totals["small"] == pytest.approx(0.6, abs=0.06)  # a scene of omitted objects keeps one
    assert wrong["colour"] / total == pytest.approx(0.25, abs=0.02)
    assert wrong["size"] / total == pytest.approx(0.1, abs=0.02)
    assert wrong["shape"] / total == pytest.approx(0.2, abs=0.02)
    assert invented / 3000 == pytest.approx(0.3, abs=0.03)


def test_misplaced_object_lands_in_a_neighbouring_cell():
    scene = Scene(
        objects=(
            SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
            SceneObject(cell="bottom-right", size="small", colour="blue", shape="square"),
        )
    )
    view = perceive(scene, Faults(wrong_cell=1), random.Random(1))
    places = {item.colour: item.cell for item in view.objects}
    assert places["red"] in ("top", "left")
    assert places["blue"] in ("right", "bottom")


def test_noisy_captions_repeat_and_stay_canonical():
    for index in range(50):
        scene = generate_scene(2, index)
        caption = noisy_caption(scene, 2, index)
        assert caption == noisy_caption(scene, 2, index)
        result = mentions(caption)
        assert (
            write_caption(
                View(tuple(SceneObject(**item._asdict()) for item in result.objects), next(iter(result.words), None))
            )
            == caption
        )
