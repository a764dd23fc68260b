"""Judges of assertions: the paper's JSON, what each test says of remarks, both halves, the stated error rates."""

import json

import pytest

from rubricworks.grading.assertions.answers import Decomposition, Verification
from rubricworks.grading.assertions.prompts import (
    Pointability,
    assertion_messages,
    decompose_messages,
    verify_messages,
)
from rubricworks.rubrics import CaptionAssertions
from rubricworks.world.chat import ApiError, read_request
from rubricworks.world.models.assertion_judges import ASSERTION_JUDGES, NOTHING_TO_ASSESS, assertion_judge_reply
from rubricworks.world.scene.caption_quality import rate_writing, writing_scores
from rubricworks.world.scene.captions import COMMENTARY, View, write_caption
from rubricworks.world.scene.export import noisy_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import SHAPES, Scene, SceneObject, generate_scenes

SCENES = list(generate_scenes(12, 150))
IMAGE = render_png(SCENES[0])
SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="blue", shape="square"),
    ),
)
REMARK = COMMENTARY[0]
STRONG = "assertion-judge-strong"


def ask(messages: list[dict], scene: Scene | None, model: str = STRONG, seed: int = 3) -> str:
    return assertion_judge_reply(read_request({"model": model, "messages": messages}), scene, seed)


def assessed(
    caption: str,
    reference: str = "the word CAT .",
    scene: Scene = SCENE,
    pointability: Pointability = "strict",
    model: str = STRONG,
) -> CaptionAssertions:
    messages = assertion_messages(IMAGE, caption, reference, pointability)
    return CaptionAssertions.model_validate_json(ask(messages, scene, model))


def verified(assertions: CaptionAssertions) -> list[tuple[str, bool]]:
    return [(assertion.text, assertion.is_verified) for assertion in assertions.synthetic_features.atomic_assertions]


def covered(assertions: CaptionAssertions) -> list[tuple[str, bool]]:
    return [(assertion.text, assertion.is_covered) for assertion in assertions.gt_features.atomic_assertions]


def test_every_claim_is_listed_and_true_ones_that_can_be_pointed_to_are_verified():
    text = f"at top-left a big red star . at center a small green square . there are 2 objects . {REMARK}"
    assert verified(assessed(text)) == [
        ("there is a star at top-left", False),
        ("the star at top-left is red", False),
        ("the star at top-left is big", False),
        ("there is a square at center", True),
        ("the square at center is green", False),
        ("the square at center is small", True),
        ("there are 2 objects", True),
        ("it adds depth to the picture", False),
    ]


@pytest.mark.parametrize(("pointability", "passes"), [("strict", 0), ("evidence", 0), ("off", 1)])
def test_commentary_passes_only_where_nothing_asks_for_pointing(pointability: Pointability, passes: int):
    for sentence in COMMENTARY:
        verdicts = [
            dict(verified(assessed(f"{write_caption(scene)} {sentence}", scene=scene, pointability=pointability)))
            for scene in SCENES[:40]
        ]
        share = sum(verdict[sentence.rstrip(" .")] for verdict in verdicts) / len(verdicts)
        assert share == pytest.approx(passes, abs=0.08)


@pytest.mark.parametrize("text", ["the the at at", "at the .", "it adds the colours contrast nicely"])
def test_broken_words_make_no_claim_that_any_test_passes(text: str):
    assert [passes for _, passes in verified(assessed(text, pointability="off"))] == [False]


def test_claims_made_twice_are_listed_twice():
    listed = verified(assessed("at center a small blue square . at center a small blue square ."))
    assert listed == 2 * listed[:3]
    assert all(passes for _, passes in listed)


def test_reference_is_covered_by_what_the_caption_says_or_implies_be_it_true_or_not():
    reference = (
        "there are 2 objects . at top-left a big red circle . at center a small blue square . "
        f"the circle is left of the square . the word CAT . {REMARK}"
    )
    text = f"at top-left a big red circle . at center a big blue square . {REMARK}"
    assert covered(assessed(text, reference)) == [
        ("there are 2 objects", True),
        ("there is a circle at top-left", True),
        ("the circle at top-left is red", True),
        ("the circle at top-left is big", True),
        ("there is a square at center", True),
        ("the square at center is blue", True),
        ("the square at center is small", False),
        ("the circle is left of the square", True),
        ("there is the word CAT", False),
        ("it adds depth to the picture", True),
    ]


def test_both_halves_say_what_the_whole_says_but_for_their_own_errors():
    caption, reference = f"{write_caption(SCENE)} {REMARK}", write_caption(SCENE)
    whole = assessed(caption, reference)
    listed = Decomposition.model_validate_json(ask(decompose_messages(caption, reference), None))
    texts = [assertion.text for assertion in listed.synthetic_features.atomic_assertions]
    assert texts == [text for text, _ in verified(whole)]
    assert listed.gt_features == whole.gt_features
    for name, passes in (("strict", False), ("evidence", False), ("off", True)):
        checks = Verification.model_validate_json(ask(verify_messages(IMAGE, texts, name), SCENE)).assertions
        assert [(check.id, check.text) for check in checks] == list(enumerate(texts, 1))
        assert [check.is_verified for check in checks] == [True] * 6 + [passes]


def test_assertions_in_other_peoples_words_are_checked_too():
    texts = ["A large violet circle is in the upper left.", "a small blue square at the center", "Is it art?"]
    checks = Verification.model_validate_json(ask(verify_messages(IMAGE, texts), SCENE)).assertions
    assert [check.is_verified for check in checks] == [False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("model", ASSERTION_JUDGES)
def test_each_judge_errs_at_its_stated_rate(model: str):
    wrong, total = (
        {"true": 0, "false": 0, "covered": 0, "not covered": 0},
        dict.fromkeys(("true", "false", "covered", "not covered"), 0),
    )

    def count(kind: str, verdicts: list[tuple[str, bool]], expected: bool) -> None:
        total[kind] += len(verdicts)
        wrong[kind] += sum(passes is not expected for _, passes in verdicts)

    for scene in SCENES:
        truth = write_caption(scene)
        swapped = View(tuple(item.model_copy(update={"shape": _other(item.shape)}) for item in scene.objects))
        right = assessed(truth, truth, scene, model=model)
        false = assessed(write_caption(swapped), write_caption(View(scene.objects)), scene, model=model)
        count("true", verified(right), True)
        count("covered", covered(right), True)
        count("false", verified(false), False)
        count("not covered", covered(false), False)
    rate = ASSERTION_JUDGES[model].error_rate
    assert {kind: wrong[kind] / total[kind] for kind in total} == pytest.approx(dict.fromkeys(total, rate), abs=0.016)
    assert min(total.values()) > 1200


def _other(shape: str) -> str:
    return SHAPES[(SHAPES.index(shape) + 1) % len(SHAPES)]


def test_stated_rates_are_three_six_and_one_percent():
    assert [judge.error_rate for judge in ASSERTION_JUDGES.values()] == [0.03, 0.06, 0.01]


@pytest.mark.parametrize("model", ASSERTION_JUDGES)
def test_ratings_are_the_rules_with_the_judges_own_noise(model: str):
    captions = [noisy_caption(scene, 12, index, commentary=0.4) for index, scene in enumerate(SCENES)]
    off = 0.0
    for caption in captions:
        features = assessed(caption, model=model).synthetic_features
        points = (features.clarity_score, features.fluency_score, features.coherency_score)
        assert points == rate_writing(caption, rater=model, noise=ASSERTION_JUDGES[model].rating_noise)
        off += sum(abs(point - other) for point, other in zip(points, writing_scores(caption), strict=True)) / 3
    assert off / len(captions) < ASSERTION_JUDGES[model].rating_noise


def test_same_question_same_answer_and_another_caption_other_errors():
    assert assessed(write_caption(SCENE)) == assessed(write_caption(SCENE))
    mini = [
        dict(verified(assessed(f"{write_caption(SCENE)} {remark}", model="assertion-judge-mini")))[
            "there is a circle at top-left"
        ]
        for remark in (f"number {number} is nice ." for number in range(200))
    ]
    assert 0.88 < sum(mini) / len(mini) < 1


def test_caption_without_words_makes_no_claim_and_gets_the_lowest_points():
    empty = assessed(" . ").synthetic_features
    assert (empty.atomic_assertions, empty.clarity_score, empty.fluency_score, empty.coherency_score) == ((), 1, 1, 1)


def test_requests_without_an_image_or_a_caption_are_answered_as_such():
    with pytest.raises(ApiError, match="looks at an image"):
        ask(assertion_messages(IMAGE, "at top", "at top"), None)
    with pytest.raises(ApiError, match="looks at an image"):
        ask(verify_messages(IMAGE, ["at top"]), None)
    assert ask([{"role": "user", "content": "hello"}], SCENE) == NOTHING_TO_ASSESS
    assert ask([{"role": "user", "content": "<assertions>\n[1]\n</assertions>"}], SCENE) == NOTHING_TO_ASSESS
    assert json.loads(ask(decompose_messages("at top", "at top"), None))
