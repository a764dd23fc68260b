"""Scenes are functions of seed and index, and pictures show what the scenes say."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from rubricworks.world.scene.render import BACKGROUND, RGB, draw_scene, render_png
from rubricworks.world.scene.scene import (
    CELLS,
    MAX_OBJECTS,
    MIN_OBJECTS,
    WORD_CELL,
    WORD_SHARE,
    Scene,
    SceneObject,
    generate_scene,
    generate_scenes,
    grid_position,
    relations,
)
from rubricworks.world.scene.scene_index import pixel_digest


def thing(cell: str, size: str = "big", colour: str = "red", shape: str = "circle") -> SceneObject:
    return SceneObject(cell=cell, size=size, colour=colour, shape=shape)


def test_scenes_repeat_in_another_process_with_another_hash_seed():
    program = (
        "from rubricworks.world.scene.scene import generate_scene\n"
        "print([generate_scene(7, index).model_dump_json() for index in range(5)])"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] == str([generate_scene(7, index).model_dump_json() for index in range(5)])


def test_scenes_differ_among_themselves_and_between_seeds():
    first = list(generate_scenes(1, 500))
    assert len(set(first)) == 500
    assert list(generate_scenes(1, 100)) == first[:100]
    assert len(set(first) & set(generate_scenes(2, 500))) < 25


def test_scenes_use_every_cell_count_and_attribute_about_equally():
    scenes = list(generate_scenes(3, 1500))
    counts = [len(scene.objects) for scene in scenes]
    assert {MIN_OBJECTS, MAX_OBJECTS} <= set(counts)
    assert all(counts.count(number) / 1500 == pytest.approx(1 / 3, abs=0.05) for number in (2, 3, 4))
    assert sum(scene.word is not None for scene in scenes) / 1500 == pytest.approx(WORD_SHARE, abs=0.05)
    places = [item.cell for scene in scenes for item in scene.objects]
    for cell in set(CELLS) - {WORD_CELL}:
        assert places.count(cell) / len(places) == pytest.approx(1 / 9, abs=0.03)


def test_scene_with_two_objects_in_a_cell_or_one_on_the_word_is_refused():
    with pytest.raises(ValidationError, match="at most one per cell"):
        Scene(objects=(thing("top"), thing("top", colour="blue")))
    with pytest.raises(ValidationError, match="reading order"):
        Scene(objects=(thing("center"), thing("top")))
    with pytest.raises(ValidationError, match="holds the word"):
        Scene(objects=(thing("top"), thing(WORD_CELL)), word="CAT")


def test_relations_follow_columns_then_rows():
    left, middle, below = thing("left"), thing("top"), thing("bottom", colour="blue")
    assert relations((middle, left)) == ((left, "left of", middle),)
    assert relations((middle, below)) == ((middle, "above", below),)


@pytest.mark.parametrize("index", range(6))
def test_picture_shows_each_object_in_its_cell_and_nothing_elsewhere(index: int):
    scene = generate_scene(11, index)
    image = draw_scene(scene)
    assert image.size == (96, 96)
    by_cell = {item.cell: item for item in scene.objects}
    for cell in CELLS:
        row, column = grid_position(cell)
        box = (column * 32, row * 32, column * 32 + 32, row * 32 + 32)
        colours = dict((colour, count) for count, colour in image.crop(box).getcolors())
        if cell in by_cell:
            item = by_cell[cell]
            painted = colours[RGB[item.colour]]
            assert painted > 150 if item.size == "big" else 30 < painted < 200
            assert image.getpixel((column * 32 + 16, row * 32 + 16)) == RGB[item.colour]
        elif cell == WORD_CELL and scene.word:
            assert 20 < sum(colours.values()) - colours[BACKGROUND] < 300
        else:
            assert colours == {BACKGROUND: 32 * 32}


def test_same_shape_is_visibly_larger_when_big():
    for shape in ("circle", "square", "triangle", "star"):
        scene = Scene(objects=(thing("top-left", shape=shape), thing("right", "small", shape=shape)))
        colours = [
            dict((c, n) for n, c in draw_scene(scene).crop(box).getcolors())
            for box in ((0, 0, 32, 32), (64, 32, 96, 64))
        ]
        assert colours[0][RGB["red"]] > 2.5 * colours[1][RGB["red"]]


def test_pictures_of_different_scenes_have_different_pixels():
    digests = {pixel_digest(render_png(scene)) for scene in generate_scenes(5, 200)}
    assert len(digests) == 200
