"""The arena's judge weighs truth and writing; the recaptioner hardly errs."""

import json

import pytest

from rubricworks.evaluation.scorers.comparisons.pairwise import PairwiseJudgment, pairwise_messages
from rubricworks.world.chat import ApiError, read_request
from rubricworks.world.models.captioners import recaptioner_reply
from rubricworks.world.models.image_judges import NOTHING_TO_COMPARE, arena_judge_reply, arena_quality, compare
from rubricworks.world.scene.captions import COMMENTARY, write_caption
from rubricworks.world.scene.export import noisy_caption
from rubricworks.world.scene.oracle import score_caption
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes

SCENES = list(generate_scenes(10, 600))


def judgment(scene: Scene, first: str, second: str) -> str:
    body = {"model": "arena-judge", "messages": pairwise_messages(render_png(SCENES[0]), first, second)}
    return PairwiseJudgment.model_validate_json(arena_judge_reply(read_request(body), scene, 1)).judgment


def test_quality_is_half_truth_and_half_writing():
    scene = SCENES[0]
    truth = write_caption(scene)
    assert arena_quality(scene, truth) == 1
    assert arena_quality(scene, "") == 0
    assert arena_quality(scene, COMMENTARY[0]) == 0.5
    assert arena_quality(scene, f"{truth} {truth}") < arena_quality(scene, truth)


def test_better_written_of_two_true_captions_wins():
    won = plain = 0
    for number, scene in enumerate(SCENES[:100]):
        truth = write_caption(scene)
        broken = truth.replace(" a ", " a a ").rstrip(" .")
        assert score_caption(scene, broken) == score_caption(scene, truth)
        won += judgment(scene, broken, truth) == "B"
        plain += compare(scene, str(number), broken, truth)[0] == "B"
    assert won > 75
    assert plain < 60


@pytest.mark.slow
def test_truth_wins_over_a_faulty_caption_and_the_same_words_tie():
    results = [judgment(scene, noisy_caption(scene, 10, i), write_caption(scene)) for i, scene in enumerate(SCENES)]
    faulty = [score_caption(scene, noisy_caption(scene, 10, i)).f1 < 0.7 for i, scene in enumerate(SCENES)]
    of_faulty = [result for result, bad in zip(results, faulty, strict=True) if bad]
    assert of_faulty.count("B") / len(of_faulty) > 0.85
    assert judgment(SCENES[0], "at top", " at  top ") == "Tie"
    assert judgment(SCENES[0], "at top", "at left") == judgment(SCENES[0], "at top", "at left")


def test_requests_without_image_or_captions_are_answered_as_such():
    request = read_request({"model": "arena-judge", "messages": [{"role": "user", "content": "hello"}]})
    assert arena_judge_reply(request, SCENES[0], 1) == NOTHING_TO_COMPARE
    for answer in (arena_judge_reply, recaptioner_reply):
        with pytest.raises(ApiError, match="looks at an image"):
            answer(request, None, 1)


def test_recaptioner_gets_all_but_two_percent_right_in_the_students_style():
    objects = right = words = words_right = 0
    for scene in SCENES:
        caption = recaption(scene)
        score = score_caption(scene, caption)
        objects, right = objects + score.objects_present, right + score.objects_right
        words, words_right = words + (scene.word is not None), words_right + bool(score.word_right)
        assert len(mentions(caption).objects) <= len(scene.objects)
        if score.f1 == 1 and score.word_right in (None, True):
            assert caption == write_caption(scene)
    assert 1 - right / objects == pytest.approx(0.02, abs=0.01)
    assert words_right / words >= 0.95


def test_recaptioner_says_the_same_to_the_same_request():
    assert recaption(SCENES[1], 3) == recaption(SCENES[1], 3)
    assert len({recaption(scene, seed) for scene in SCENES[:20] for seed in range(10)}) > 25


def recaption(scene: Scene, seed: int = 0) -> str:
    body = {"model": "recaptioner", "messages": [{"role": "user", "content": "Describe the image."}], "seed": seed}
    return recaptioner_reply(read_request(body), scene, 1)


def test_answers_are_plain_json():
    body = {"model": "arena-judge", "messages": pairwise_messages(render_png(SCENES[0]), "at top", "at left")}
    assert set(json.loads(arena_judge_reply(read_request(body), SCENES[0], 1))) == {"reason", "judgment"}
