"""The oracle against a search over all assignments, and against hand-made cases."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.world.scene.captions import View, write_caption
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import CELLS, Scene, SceneObject, generate_scene

few_objects = st.builds(
    SceneObject,
    cell=st.sampled_from(CELLS[:3]),
    size=st.sampled_from(("big", "small")),
    colour=st.sampled_from(("red", "blue")),
    shape=st.sampled_from(("circle", "star")),
)
SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="blue", shape="square"),
    ),
    word="CAT",
)


def most_right_by_brute_force(truth: tuple[SceneObject, ...], claims: tuple[SceneObject, ...]) -> int:
    padded = [*truth, *[None] * len(claims)]
    return max(sum(a == b for a, b in zip(claims, order, strict=False)) for order in permutations(padded, len(claims)))


@given(
    truth=st.lists(few_objects, min_size=2, max_size=3, unique_by=lambda item: item.cell),
    claims=st.lists(few_objects, min_size=1, max_size=4),
)
@settings(max_examples=60)
def test_score_equals_the_best_one_to_one_assignment(truth: list[SceneObject], claims: list[SceneObject]):
    scene = Scene(objects=tuple(sorted(truth, key=lambda item: CELLS.index(item.cell))))
    right = most_right_by_brute_force(scene.objects, tuple(claims))
    score = score_caption(scene, write_caption(View(tuple(claims))))
    assert score.objects_right == right
    assert score.precision == pytest.approx(right / len(claims))
    assert score.recall == pytest.approx(right / len(truth))
    harmonic = 0 if right == 0 else 2 / (1 / score.precision + 1 / score.recall)
    assert score.f1 == pytest.approx(harmonic)


@pytest.mark.parametrize(
    ("caption", "precision", "recall"),
    [
        ("at top-left a big red circle . at center a small blue square .", 1, 1),
        ("at top-left a big red circle .", 1, 0.5),
        ("at top-left a big red circle . at top-left a big red circle .", 0.5, 0.5),
        ("at top-left a big red circle . at center a small blue square . at top a big red star .", 2 / 3, 1),
        ("at top-left a big red square . at center a big blue square .", 0, 0),
        ("at top-left a big red . at center a small blue square", 0.5, 0.5),
        ("at top a big red circle", 0, 0),
        ("this is absolutely correct and complete", 0, 0),
        ("", 0, 0),
    ],
)
def test_hand_made_captions(caption: str, precision: float, recall: float):
    score = score_caption(SCENE, caption)
    assert (score.precision, score.recall) == (pytest.approx(precision), pytest.approx(recall))


def test_listing_every_guess_costs_precision():
    listed = " ".join(
        f"at {cell} a {size} {colour} {shape} ."
        for cell in ("top-left", "center")
        for size in ("big", "small")
        for colour in ("red", "blue")
        for shape in ("circle", "square")
    )
    score = score_caption(SCENE, listed)
    assert (score.recall, score.precision, score.objects_named) == (1, pytest.approx(2 / 16), 16)


def test_word_is_reported_apart():
    assert score_caption(SCENE, "the word CAT .").word_right is True
    assert score_caption(SCENE, "the word SUN .").word_right is False
    assert score_caption(SCENE, "").word_right is False
    wordless = next(scene for index in range(99) if (scene := generate_scene(0, index)).word is None)
    assert score_caption(wordless, "").word_right is None
    assert score_caption(wordless, "the word SUN .").word_right is False
