"""Each teacher has its own fault at its stated rate, and says the same thing whenever it is asked the same."""

import subprocess
import sys
from collections import Counter

import pytest

from rubricworks.world.models.captioners import SLIPS, TEACHERS, teacher_caption
from rubricworks.world.scene.captions import STYLES
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.scene import generate_scene

SCENES = [generate_scene(31, index) for index in range(700)]


def measured(model: str) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for index, scene in enumerate(SCENES):
        caption_objects = mentions(teacher_caption(model, scene, f"image {index}"))
        by_cell = {item.cell: item for item in caption_objects.objects}
        cells = {item.cell for item in scene.objects}
        counts["captions"] += 1
        counts["elsewhere"] += any(item.cell not in cells for item in caption_objects.objects)
        counts["longer"] += len(caption_objects.objects) > len(scene.objects)
        for item in scene.objects:
            counts["objects"] += 1
            counts[item.size] += 1
            mention = by_cell.get(item.cell)
            if mention is None:
                counts[f"no {item.size}"] += 1
                continue
            counts["heard"] += 1
            for attribute in ("size", "colour", "shape"):
                counts[f"wrong {attribute}"] += getattr(mention, attribute) != getattr(item, attribute)
    rates = {f"wrong {name}": counts[f"wrong {name}"] / counts["heard"] for name in ("size", "colour", "shape")}
    rates |= {f"no {size}": counts[f"no {size}"] / counts[size] for size in ("big", "small")}
    return rates | {
        "elsewhere": counts["elsewhere"] / counts["captions"],
        "longer": counts["longer"] / counts["captions"],
    }


def test_teacher_1_overlooks_small_objects_only():
    rates = measured("teacher-1")
    assert rates["no small"] == pytest.approx(TEACHERS["teacher-1"].faults.omits_small + SLIPS.wrong_cell, abs=0.06)
    assert rates["no big"] < 0.08
    assert max(rates["wrong colour"], rates["wrong size"], rates["wrong shape"]) < 0.05


def test_teacher_2_confuses_colours():
    rates = measured("teacher-2")
    assert rates["wrong colour"] == pytest.approx(0.25, abs=0.03)
    assert max(rates["no small"], rates["wrong size"], rates["wrong shape"]) < 0.08


def test_teacher_3_misplaces_objects():
    rates = measured("teacher-3")
    misplaced = TEACHERS["teacher-3"].faults.wrong_cell
    assert 0.15 < misplaced < 0.3
    assert rates["no big"] == pytest.approx(misplaced + SLIPS.omits_big, abs=0.05)
    assert rates["elsewhere"] > 0.3
    assert rates["longer"] < 0.06


def test_teacher_4_invents_objects():
    rates = measured("teacher-4")
    assert rates["longer"] == pytest.approx(0.5, abs=0.06)
    assert rates["no big"] < 0.08


def test_teacher_5_misjudges_sizes_and_shapes_and_talks_most():
    rates = measured("teacher-5")
    assert rates["wrong size"] == pytest.approx(0.25, abs=0.03)
    assert rates["wrong shape"] == pytest.approx(0.08, abs=0.03)
    lengths = {model: len(teacher_caption(model, SCENES[0], "image").split()) for model in TEACHERS}
    assert max(lengths, key=lengths.get) == "teacher-5"


def test_teachers_have_five_styles_of_which_none_is_the_students():
    styles = {teacher.style for teacher in TEACHERS.values()}
    assert styles == set(STYLES) - {"canonical"}


def test_every_teacher_is_useful_and_none_is_an_oracle():
    for model in TEACHERS:
        scores = [
            score_caption(scene, teacher_caption(model, scene, str(i))).f1 for i, scene in enumerate(SCENES[:300])
        ]
        assert 0.55 < sum(scores) / len(scores) < 0.95


def test_same_request_same_caption_in_any_process_and_another_seed_another_caption():
    program = (
        "from rubricworks.world.scene.scene import generate_scene\n"
        "from rubricworks.world.models.captioners import teacher_caption\n"
        "print([teacher_caption('teacher-4', generate_scene(1, i), str(i), request_seed=3) for i in range(5)])"
    )
    local = [teacher_caption("teacher-4", generate_scene(1, i), str(i), request_seed=3) for i in range(5)]
    process = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "9"}, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == str(local)
    asked_again = {teacher_caption("teacher-4", SCENES[0], "image", request_seed=seed) for seed in range(20)}
    assert len(asked_again) > 3
    by_world = {teacher_caption("teacher-4", SCENES[0], "image", world_seed=seed) for seed in range(20)}
    assert len(by_world) > 3
