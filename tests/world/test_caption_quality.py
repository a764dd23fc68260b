"""Writing is rated by its text alone: each stated rule costs what it says, and what is well written costs nothing."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rubricworks.world.scene.caption_quality import WritingScores, count_odd_pairs, rate_writing, writing_scores
from rubricworks.world.scene.captions import COMMENTARY, STYLES, write_caption
from rubricworks.world.scene.export import noisy_caption
from rubricworks.world.scene.scene import generate_scenes

SCENES = list(generate_scenes(6, 200))
BEST = WritingScores(10, 10, 10)
ONE = "at top a big red circle ."
TWO = f"{ONE} at left a small blue star ."


@pytest.mark.parametrize("style", STYLES)
def test_every_style_is_good_english_and_only_the_wordy_ones_cost_clarity(style: str):
    ratings = [writing_scores(write_caption(scene, style)) for scene in SCENES]
    assert {rating.fluency for rating in ratings} == {10}
    lowest = {"canonical": 10, "verbose": 4}.get(style, 7.5)
    assert all(rating.clarity >= lowest for rating in ratings)


@pytest.mark.parametrize("sentence", COMMENTARY)
def test_commentary_is_fluent_and_neither_costs_nor_earns(sentence: str):
    assert writing_scores(sentence) == writing_scores(f"{TWO} {sentence}") == writing_scores(TWO) == BEST


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("", (1, 1, 1)),
        (" . ,", (1, 1, 1)),
        (f"{ONE} {ONE}", (8.5, 10, 9.5)),
        (f"{TWO} {COMMENTARY[0]} {COMMENTARY[0]}", (8.5, 10, 9.5)),
        ("at top a big red circle . the top shows a big red circle .", (8.5, 10, 10)),
        (f"{ONE} a red star .", (9, 10, 10)),
        (f"{ONE} at left a small .", (8.5, 8.5, 9.5)),
        ("at top a a big red circle .", (9.5, 8.5, 9.5)),
        ("at top a big red circle", (10, 9, 10)),
        ("at left a small blue star . at top a big red circle .", (10, 10, 8.5)),
        ("at top a big red circle . at top a small red circle .", (10, 10, 8)),
        (f"there are 3 objects . {ONE}", (10, 10, 8)),
        ("the word CAT . the word SUN .", (10, 10, 8)),
        ("at top a circle . at top a red circle .", (10, 10, 10)),  # says more of the same thing
        ("A man walks his dog along the beach.", (10, 10, 10)),  # words of no scene are passed over
    ],
)
def test_each_rule_costs_what_is_stated(caption: str, expected: tuple[float, float, float]):
    assert writing_scores(caption) == pytest.approx(expected)


def test_long_captions_long_sentences_and_long_lists_cost_more_the_longer_they_are():
    cells = ("top-left", "top", "top-right", "left", "center", "right", "bottom-left")
    listed = [" ".join(f"at {cell} a big red circle ." for cell in cells[:count]) for count in (4, 5, 6, 7)]
    assert [writing_scores(caption).fluency for caption in listed] == [10, 9, 8, 7]
    assert [writing_scores(caption).clarity for caption in listed] == pytest.approx([10, 10, 9.4, 8.5])
    sentence = "a red circle , " * 20 + "a red circle ."
    assert writing_scores(sentence).clarity < writing_scores(listed[-1]).clarity


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("at top a big red circle", 0),
        ("at top a red circle and at left a star", 0),
        ("there is a red circle at the top", 0),
        ("at at top a red circle", 1),
        ("at top big big red circle", 2),
        ("at top a big", 1),
        ("at a circle", 1),
        ("big red circle", 1),
    ],
)
def test_slips_are_neighbours_that_do_not_go_together(sentence: str, count: int):
    assert count_odd_pairs(sentence.split()) == count


@given(text=st.text(max_size=200) | st.lists(st.sampled_from(f"{TWO} 3 objects word CAT".split())).map(" ".join))
@settings(max_examples=200)
def test_any_text_gets_points_from_one_to_ten(text: str):
    assert all(1 <= points <= 10 for points in writing_scores(text))
    assert all(points in range(1, 11) for points in rate_writing(text))


def test_noise_is_small_stated_and_the_raters_own():
    captions = [noisy_caption(scene, 6, index, commentary=0.3) for index, scene in enumerate(SCENES)]
    rated = [rate_writing(caption, rater="a") for caption in captions]
    assert rated != [rate_writing(caption, rater="b") for caption in captions]
    assert len(set(rated)) > 3
    rules = [round(points) for caption in captions for points in writing_scores(caption)]
    points = [points for rating in rated for points in rating]
    assert max(abs(point - other) for point, other in zip(points, rules, strict=True)) <= 2
    away = sum(point != other for point, other in zip(points, rules, strict=True))
    assert away / len(points) == pytest.approx(0.11, abs=0.04)  # P(noise < -0.5), where the rules give 10
    assert rate_writing(TWO, noise=0) == (10, 10, 10)


def test_same_caption_same_rating_in_any_process():
    program = (
        "from rubricworks.world.scene.caption_quality import rate_writing\n"
        "print([rate_writing(f'at top a {number}') for number in range(9)])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONHASHSEED": "9"}, capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == str([rate_writing(f"at top a {number}") for number in range(9)])


def test_brief_captions_stop_after_the_first_half_of_their_sentences():
    for index, scene in enumerate(SCENES):
        whole, brief = noisy_caption(scene, 6, index), noisy_caption(scene, 6, index, brevity=1.0)
        sentences = whole.removesuffix(" .").split(" . ")
        assert brief == " . ".join(sentences[: max(1, len(sentences) // 2)]) + " ."
        assert noisy_caption(scene, 6, index, brevity=0.0) == whole
