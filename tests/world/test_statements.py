"""Every caption comes apart into claims; each can be read back from its text, and a scene bears out the true ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.grading.assertions.texts import first_surplus, text_states
from rubricworks.world.scene.captions import COMMENTARY, STYLES, View, write_caption
from rubricworks.world.scene.scene import CELLS, COLOURS, SHAPES, SIZES, WORDS, Scene, SceneObject, generate_scenes
from rubricworks.world.scene.statements import (
    caption_mentions,
    is_supported,
    read_statement,
    restore_synonyms,
    scene_mentions,
    statements,
)

SCENES = list(generate_scenes(5, 60))
SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="blue", shape="square"),
    ),
    word="CAT",
)
TOKENS = (
    *("top-left", "top", "bottom", "right"),
    *SIZES,
    *COLOURS,
    *SHAPES,
    *("a", "at", "the", ".", ",", "and", "is", "left of", "above", "3 objects", "word CAT", "it adds depth"),
)


def texts(caption: str) -> list[str]:
    return [claim.text for claim in statements(caption)]


def true_in(scene: Scene, text: str) -> bool:
    return all(is_supported(claim, scene_mentions(scene)) for claim in read_statement(text))


def test_canonical_caption_makes_one_claim_for_each_object_attribute_word_and_remark():
    assert texts(f"{write_caption(SCENE)} {COMMENTARY[0]}") == [
        "there is a circle at top-left",
        "the circle at top-left is red",
        "the circle at top-left is big",
        "there is a square at center",
        "the square at center is blue",
        "the square at center is small",
        "there is the word CAT",
        "it adds depth to the picture",
    ]


def test_what_is_said_twice_is_claimed_twice():
    assert texts("at top a red star . at top a red star .") == 2 * ["there is a star at top", "the star at top is red"]


@given(tokens=st.lists(st.sampled_from(TOKENS), max_size=40))
@settings(max_examples=300)
def test_claim_of_any_caption_is_read_back_from_its_text_alone(tokens: list[str]):
    caption = " ".join(tokens)
    for claim in statements(caption):
        assert read_statement(claim.text) == (claim,)
    assert bool(statements(caption)) == any(token not in ".," for token in tokens)


@pytest.mark.parametrize("style", STYLES)
def test_everything_that_a_right_caption_says_of_the_scene_is_true_in_any_style(style: str):
    for scene in SCENES:
        claims = [claim for claim in statements(write_caption(scene, style)) if claim.remark is None]
        assert len(claims) >= 3 * len(scene.objects) + (scene.word is not None)
        assert all(is_supported(claim, scene_mentions(scene)) for claim in claims)


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("there is a circle at top-left", True),
        ("there is a circle", True),
        ("there is a circle at center", False),
        ("the circle at top-left is red", True),
        ("the circle at top-left is blue", False),
        ("the star at top-left is red", False),  # there is no star that could be red
        ("something at center is small", True),
        ("something at top is small", False),
        ("the big red circle is left of the small blue square", True),
        ("the small blue square is right of the circle", True),
        ("the square is above the circle", False),
        ("there are 2 objects", True),
        ("there are 3 objects", False),
        ("there is the word CAT", True),
        ("there is the word SUN", False),
        ("a big red circle is at the top left", True),
        ("a big red circle is at the bottom left", False),
        ("there is something at middle", True),
        ("something at middle is little", True),
        ("the circle at top-left is violet", False),
        ("it adds depth to the picture", False),
    ],
)
def test_claims_are_true_or_false_in_the_scene(text: str, true: bool):
    assert true_in(SCENE, text) is true


def test_reader_of_a_caption_infers_relations_and_counts_from_what_it_says():
    view = caption_mentions(write_caption(View(SCENE.objects)))
    follows = ("the circle is left of the square", "the circle is above the square", "there are 2 objects")
    assert all(is_supported(read_statement(text)[0], view) for text in follows)
    assert not is_supported(read_statement("the square is left of the circle")[0], view)
    stated = caption_mentions("there are 3 objects . at top a red star .")
    assert stated.counts == (3,)
    assert not is_supported(read_statement("there are 1 objects")[0], stated)
    assert caption_mentions("at top").counts == ()


@given(
    first=st.builds(
        SceneObject,
        cell=st.sampled_from(CELLS),
        size=st.sampled_from(SIZES),
        colour=st.sampled_from(COLOURS),
        shape=st.sampled_from(SHAPES),
    ),
    word=st.none() | st.sampled_from(WORDS),
)
@settings(max_examples=50)
def test_caption_bears_out_its_own_claims(first: SceneObject, word: str | None):
    for style in STYLES:
        caption = write_caption(View((first, *SCENE.objects), word), style)
        claims = [claim for claim in statements(caption) if claim.remark is None]
        assert all(is_supported(claim, caption_mentions(caption)) for claim in claims)


def test_claim_keeps_the_captions_own_words_for_things():
    caption = "in the middle a violet thing ."
    claims = [restore_synonyms(caption, text) for text in texts(caption)]
    assert claims == ["there is something at middle", "something at middle is violet"]
    assert [read_statement(text)[0] for text in claims] == list(statements(caption))


@given(tokens=st.lists(st.sampled_from(TOKENS), min_size=1, max_size=40))
@settings(max_examples=300)
def test_claims_are_made_in_the_captions_own_words(tokens: list[str]):
    caption = " ".join(tokens)
    texts = [claim.text for claim in statements(caption)]
    assert all(text_states(caption, texts))
    assert first_surplus(caption, texts) is None
