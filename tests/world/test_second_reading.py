"""The second reading of captions, beside the first one and by hand."""

import pytest

from rubricworks.world.models.captioners import TEACHERS, teacher_caption
from rubricworks.world.scene.captions import STYLES, write_caption
from rubricworks.world.scene.export import noisy_caption
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.scene import generate_scenes
from rubricworks.world.scene.second_reading import read_objects, second_f1

SCENES = list(generate_scenes(5, 150))


@pytest.mark.parametrize("style", STYLES)
def test_both_readings_agree_on_every_style(style):
    for scene in SCENES:
        caption = write_caption(scene, style)
        assert (caption, second_f1(scene, caption)) == (caption, score_caption(scene, caption).f1)
        assert second_f1(scene, caption) == 1


def test_both_readings_agree_on_captions_with_faults():
    for index, scene in enumerate(SCENES):
        captions = [teacher_caption(name, scene, str(index), world_seed=5) for name in TEACHERS]
        captions.append(noisy_caption(scene, 5, index, commentary=0.3, repetition=0.3, brevity=0.3))
        for caption in captions:
            assert (caption, second_f1(scene, caption)) == (caption, pytest.approx(score_caption(scene, caption).f1))


@pytest.mark.parametrize(
    ("caption", "objects"),
    [
        ("a big red circle at the upper left", [("top-left", "big", "red", "circle")]),
        ("at center a large violet star .", [("center", "big", "purple", "star")]),
        ("at top a red star and a star", [("top", None, "red", "star"), (None, None, None, "star")]),
        ("the word CAT is written at the bottom .", []),
        ("the red star is left of the blue square .", []),
        ("at left a big red .", [("left", None, None, None), (None, "big", None, None), (None, None, "red", None)]),
        ("it adds depth to the picture .", []),
    ],
)
def test_objects_are_read_from_their_nouns_outwards(caption, objects):
    assert sorted(read_objects(caption).elements(), key=repr) == sorted(objects, key=repr)
