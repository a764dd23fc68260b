"""The judge of facts takes apart, matches and checks as DCScore asks it, at its stated error rate."""

import json

import pytest

from rubricworks.evaluation.scorers.caption_prompts import (
    FactChecks,
    FactMatches,
    Facts,
    decompose_messages,
    match_messages,
    verify_messages,
)
from rubricworks.world.chat import ApiError, read_request
from rubricworks.world.models.caption_metrics import FACT_ERROR_RATE, NO_FACTS, fact_judge_reply
from rubricworks.world.scene.captions import COMMENTARY, write_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, generate_scenes

SCENES = list(generate_scenes(9, 200))


def reply(messages: list[dict], scene: Scene | None = None) -> str:
    return fact_judge_reply(read_request({"model": "fact-judge", "messages": messages}), scene, 1)


def facts_of(caption: str) -> Facts:
    return Facts.model_validate_json(reply(decompose_messages(caption)))


def test_caption_comes_apart_into_facts_each_once_of_which_remarks_are_not_relevant():
    facts = facts_of(f"at top a red star . at top a red star . {COMMENTARY[0]}").facts
    assert [fact.fact for fact in facts] == [
        "there is a star at top",
        "the star at top is red",
        "it adds depth to the picture",
    ]
    assert [fact.relevant for fact in facts] == [True, True, False]
    assert facts_of("").facts == ()


def test_facts_match_the_first_of_the_reference_that_says_the_same():
    facts = ["the star at top is red", "there is a star", "a star is at the top", "there is the word CAT"]
    reference = ["there is a star at top", "the star at top is red", "there is a star at top"]
    answer = FactMatches.model_validate_json(reply(match_messages(facts, reference)))
    assert [(match.fact, match.reference) for match in answer.matches] == [(1, 2), (2, None), (3, 1), (4, None)]


def test_facts_are_checked_in_the_scene():
    scene = SCENES[0]
    item = scene.objects[0]
    facts = [f"there is a {item.shape} at {item.cell}", "there are 9 objects", COMMENTARY[0].rstrip(" .")]
    answer = FactChecks.model_validate_json(reply(verify_messages(render_png(scene), facts), scene))
    assert [(check.fact, check.is_true) for check in answer.checks] == [(1, True), (2, False), (3, False)]


def test_each_decision_is_wrong_at_the_stated_rate():
    wrong = {"relevant": 0, "match": 0, "check": 0}
    total = 0
    for scene in SCENES:
        facts = facts_of(write_caption(scene)).facts
        texts = [fact.fact for fact in facts]
        matches = FactMatches.model_validate_json(reply(match_messages(texts, texts[::-1]))).matches
        checks = FactChecks.model_validate_json(reply(verify_messages(render_png(SCENES[0]), texts), scene)).checks
        total += len(texts)
        wrong["relevant"] += sum(not fact.relevant for fact in facts)
        wrong["match"] += sum(match.reference != len(texts) + 1 - match.fact for match in matches)
        wrong["check"] += sum(not check.is_true for check in checks)
    assert total > 1500
    assert {name: count / total for name, count in wrong.items()} == pytest.approx(
        dict.fromkeys(wrong, FACT_ERROR_RATE), abs=0.012
    )


def test_other_requests_get_prose_and_checks_need_an_image():
    assert reply([{"role": "user", "content": "hello"}]) == NO_FACTS
    with pytest.raises(ApiError, match="send one as an image_url part"):
        reply([{"role": "user", "content": "<facts>\n1. there is a star\n</facts>"}])
    assert json.loads(reply(match_messages([], ["there is a star"]))) == {"matches": []}
