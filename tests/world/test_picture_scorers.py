"""The scripted peers: each gives full marks to a right picture, and misses what its stated fault says."""

import json
import random

import pytest

from rubricworks.data.images import png_bytes
from rubricworks.world.chat import ApiError, ChatRequest
from rubricworks.world.pictures.drawing import Thing, draw
from rubricworks.world.pictures.picture_scorers import LLAVA_NOISE, PICTURE_SCORERS, picture_score_reply
from rubricworks.world.pictures.prompts import TASKS, picture_of, wishes


def score(model, prompt, *things, seed=0):
    request = ChatRequest(model, f"<prompt>\n{prompt}\n</prompt>", png_bytes(draw(things)), 1, 9, 0, None)
    return json.loads(picture_score_reply(request, seed))["score"]


CIRCLE, SQUARE = Thing("circle", "red", 0, 0), Thing("square", "blue", 0, 2)
SWAPPED = (Thing("circle", "blue", 0, 0), Thing("square", "red", 0, 2))
PROMPT = "a red circle and a blue square"


@pytest.mark.parametrize("model", ["clip-like", "unified-reward-like"])
@pytest.mark.parametrize("task", TASKS)
def test_a_picture_that_shows_its_prompt_gets_full_marks(model, task):
    for at, wish in enumerate(wishes(task)[::7]):
        assert score(model, wish.words, *picture_of(wish, random.Random(at))) == 1.0


def test_clip_like_sees_words_and_neither_binding_nor_number_nor_position():
    assert score("clip-like", PROMPT, CIRCLE, SQUARE) == score("clip-like", PROMPT, *SWAPPED) == 1.0
    assert score("clip-like", PROMPT, CIRCLE) == 0.5
    assert score("clip-like", "four circles", CIRCLE) == 1.0
    assert score("clip-like", "a circle right of a square", CIRCLE, SQUARE) == 1.0
    assert score("clip-like", PROMPT) == 0.0


def test_unified_reward_binds_colours_and_knows_one_from_several():
    assert score("unified-reward-like", PROMPT, *SWAPPED) < score("unified-reward-like", PROMPT, CIRCLE, SQUARE)
    several = [Thing("circle", "red", 0, column) for column in range(3)]
    assert score("unified-reward-like", "four circles", *several) == 1.0
    assert score("unified-reward-like", "four circles", CIRCLE) < 1.0
    assert score("unified-reward-like", "a circle right of a square", CIRCLE, SQUARE) == 1.0


def test_llava_reward_like_sees_position_and_no_number_with_its_stated_noise():
    def mean(prompt, *things):
        return sum(score("llava-reward-like", prompt, *things, seed=seed) for seed in range(200)) / 200

    right, wrong = mean("a circle left of a square", CIRCLE, SQUARE), mean("a circle right of a square", CIRCLE, SQUARE)
    # A mean of 200 draws lies within four of its standard deviations.
    reach = 4 * LLAVA_NOISE / 200**0.5
    assert right == pytest.approx(1.0, abs=reach)
    assert wrong == pytest.approx(2 / 3, abs=reach)
    assert mean("four circles", CIRCLE) == pytest.approx(1.0, abs=reach)


def test_aesthetic_and_realism_ignore_the_prompt_and_hps_mixes_both():
    for model in ("aesthetic-like", "realism-like"):
        assert score(model, PROMPT, CIRCLE, SQUARE) == score(model, "anything else", CIRCLE, SQUARE)
    grey = [Thing("circle", "black", 0, 0), Thing("square", "black", 0, 2)]
    assert score("aesthetic-like", PROMPT, CIRCLE, SQUARE) > score("aesthetic-like", PROMPT, *grey)
    assert score("realism-like", PROMPT, CIRCLE, SQUARE) == 1.0
    pale, vivid = (score("hps-like", "a circle and a square", *things) for things in (grey, (CIRCLE, SQUARE)))
    clip, aesthetic = (score(scorer, "a circle and a square", *grey) for scorer in ("clip-like", "aesthetic-like"))
    assert pale < vivid
    assert pale == pytest.approx(0.7 * clip + 0.3 * aesthetic, abs=1e-5)


@pytest.mark.parametrize("model", PICTURE_SCORERS)
def test_every_scorer_repeats_itself_and_refuses_what_it_cannot_score(model):
    assert score(model, PROMPT, CIRCLE) == score(model, PROMPT, CIRCLE)
    image = png_bytes(draw([]))
    with pytest.raises(ApiError, match="prompt"):
        picture_score_reply(ChatRequest(model, "no tags", image, 1, 9, 0, None), 0)
    with pytest.raises(ApiError, match="scores an image"):
        picture_score_reply(ChatRequest(model, "<prompt>\na\n</prompt>", None, 0, 9, 0, None), 0)
    assert score(model, "a prompt of another world", CIRCLE) is not None
