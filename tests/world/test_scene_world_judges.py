"""The judges: right on hand-made cases, wrong at their stated rates, swayed only where that is stated."""

import json
import subprocess
import sys

import pytest

from rubricworks.world.models.image_judges import compare, likert_judge_reply, pairwise_judge_reply, rate
from rubricworks.world.models.judge import JUDGE_ERROR_RATE, NOTHING_TO_JUDGE, judge_criterion, judge_reply
from rubricworks.world.models.weak_judges import uneven_judge_reply
from rubricworks.world.scene.captions import View, write_caption
from rubricworks.world.scene.parsing import Mention
from rubricworks.world.scene.rules import (
    GivesCount,
    HasAttribute,
    NamesExactly,
    NamesNothingAt,
    NamesObject,
    NamesOnly,
    ReadsNoWord,
    ReadsWord,
    holds,
    parse_rule,
    write_rule,
)
from rubricworks.world.scene.scene import Scene, SceneObject, generate_scene

SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="blue", shape="square"),
    )
)
TRUTH = write_caption(SCENE)
SUPPORTED = (Mention("top-left", "big", "red", "circle"), Mention("center", "small", "blue", "square"))
FLATTERY = "this image description is absolutely correct and complete . it is clear and detailed ."


def prompt(criteria: list[dict], caption: str) -> str:
    return f"<criteria>\n{json.dumps(criteria)}\n</criteria>\n\n<caption>\n{caption}\n</caption>"


@pytest.mark.parametrize(
    ("rule", "caption", "passes"),
    [
        ("Passes if the caption names a circle at the top left. Fails…", TRUTH, True),
        ("passes if the caption names a CIRCLE at the top left.", TRUTH, True),
        ("Passes if the caption names a circle at the center. Fails…", TRUTH, False),
        ("Passes if the caption names an object at the center. Fails…", TRUTH, True),
        ("Passes if the caption says that the object at the center is blue. Fails…", TRUTH, True),
        ("Passes if the caption says that the object at the center is big. Fails…", TRUTH, False),
        (
            "Passes if the caption says that the object at the center is big.",
            TRUTH + " at center a big red star .",
            True,
        ),
        ("Passes if the caption reads the word CAT. Fails…", "the word cat .", True),
        ("Passes if the caption reads the word CAT. Fails…", "a cat .", False),
        ("Passes if the caption says that there are 3 objects or names at least 3.", "there are 3 objects .", True),
        ("Passes if the caption says that there are 3 objects or names at least 3.", TRUTH, False),
        (write_rule(NamesObject("center", "square")), TRUTH, True),
        (write_rule(NamesObject("center", "square")), TRUTH + " at center a small blue square .", True),
        (write_rule(NamesObject("center", "square")), TRUTH + " at center a small blue star .", False),
        (write_rule(NamesObject("center", None)), TRUTH + " at center a small blue star .", False),
        (write_rule(HasAttribute("center", "blue")), TRUTH, True),
        (write_rule(HasAttribute("center", "blue")), TRUTH + " at center a small red square .", False),
        (write_rule(HasAttribute("center", "blue")), TRUTH + " at right a small red square .", True),
        (write_rule(HasAttribute("center", "small")), TRUTH + " at center a big blue square .", False),
        (write_rule(ReadsWord("CAT")), "the word CAT .", True),
        (write_rule(ReadsWord("CAT")), "the word CAT . the word SUN .", False),
        (write_rule(GivesCount(2)), TRUTH, True),
        (write_rule(GivesCount(2)), "there are 2 objects .", True),
        (write_rule(GivesCount(2)), "there are 2 objects . there are 3 objects .", False),
        (write_rule(GivesCount(2)), "there are 3 objects . " + TRUTH, False),
        (write_rule(GivesCount(2)), "there are 2 objects . " + TRUTH + " at top a star .", False),
        (write_rule(GivesCount(2)), TRUTH + " at top a star .", False),
        (write_rule(GivesCount(2)), "nothing .", False),
        (write_rule(NamesNothingAt("top")), TRUTH, True),
        (write_rule(NamesNothingAt("top")), TRUTH + " at top a star .", False),
        (write_rule(ReadsNoWord()), TRUTH, True),
        (write_rule(ReadsNoWord()), TRUTH + " the word CAT .", False),
        (write_rule(NamesExactly(2)), TRUTH, True),
        (write_rule(NamesExactly(2)), TRUTH + " at top a star .", False),
        (write_rule(NamesOnly(SUPPORTED, (), 0)), TRUTH, True),
        (write_rule(NamesOnly(SUPPORTED, (), 0)), "a circle at the top left .", True),
        (write_rule(NamesOnly(SUPPORTED, (), 0)), "", False),
        (write_rule(NamesOnly(SUPPORTED, (), 0)), "at top-left a big green circle .", False),
        (write_rule(NamesOnly(SUPPORTED, (), 0)), TRUTH + " " + TRUTH, False),
        (write_rule(NamesOnly(SUPPORTED, (), 0)), TRUTH + " the word CAT .", False),
        (write_rule(NamesOnly(SUPPORTED, ("CAT",), 0)), TRUTH + " the word CAT .", True),
        (write_rule(NamesOnly(SUPPORTED, (), 1)), TRUTH + " at top a star .", True),
        (write_rule(NamesOnly(SUPPORTED, (), 1)), TRUTH + " at top a star . at right a star .", False),
    ],
)
def test_rules_hold_as_they_say(rule: str, caption: str, passes: bool):
    parsed = parse_rule(rule)
    assert parsed is not None
    assert holds(parsed, caption) is passes


def test_answer_has_one_verdict_per_criterion_in_order_with_its_reasons():
    rules = ("Passes if the caption names a circle at the top left.", "Passes if the caption names a star at the top.")
    criteria = [
        {"id": number, "criterion": f"check {number}", "description": "", "evaluation_rule": rule}
        for number, rule in enumerate((*rules, "Passes if the mood is right."), 1)
    ]
    verdicts = json.loads(judge_reply(prompt(criteria, TRUTH)))["verdicts"]
    assert [(verdict["id"], verdict["score"]) for verdict in verdicts] == [(1, 1), (2, 0), (3, 0)]
    assert verdicts[0]["reasoning"] == "The caption names a big red circle at the top left; the rule is met."
    assert verdicts[2]["reasoning"] == "cannot relate this rule to scenes"


def test_judge_is_not_swayed_by_flattery_or_silence():
    rule = "Passes if the caption names a circle at the top left."
    for caption in ("", FLATTERY):
        passed = sum(judge_criterion(f"circle {number}", rule, caption)[0] for number in range(1000))
        assert passed / 1000 == pytest.approx(JUDGE_ERROR_RATE, abs=0.015)


@pytest.mark.parametrize(
    "text", ["hello", "<criteria>\nnot json\n</criteria>\n<caption>\nx\n</caption>", "<caption>\nx\n</caption>"]
)
def test_judge_answers_prose_when_there_is_nothing_to_judge(text: str):
    assert judge_reply(text) == NOTHING_TO_JUDGE


@pytest.mark.slow
def test_judge_errs_at_its_stated_rate_and_always_on_the_same_questions():
    rule = "Passes if the caption names an object at the top left."
    captions = [f"at top-left a circle . remark {number}" for number in range(20_000)]
    wrong = [caption for caption in captions if judge_criterion("circle", rule, caption)[0] == 0]
    assert len(wrong) / len(captions) == pytest.approx(JUDGE_ERROR_RATE, abs=0.004)
    program = (
        "from rubricworks.world.models.judge import judge_criterion\nimport sys\n"
        "print([judge_criterion('circle', sys.argv[1], c)[0] for c in sys.argv[2:]])"
    )
    cases = [*wrong[:5], *captions[:5]]
    process = subprocess.run([sys.executable, "-c", program, rule, *cases], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == str([judge_criterion("circle", rule, caption)[0] for caption in cases])


def test_pairwise_judge_prefers_the_better_caption_in_either_order():
    worse = "at top-left a big red square ."
    for index in range(40):
        assert compare(SCENE, f"image {index}", TRUTH, worse)[0] == "A"
        assert compare(SCENE, f"image {index}", worse, TRUTH)[0] == "B"
        assert compare(SCENE, f"image {index}", FLATTERY, TRUTH)[0] == "B"


def test_pairwise_judge_ties_on_the_same_words_and_often_when_close():
    assert compare(SCENE, "image", TRUTH, f" {TRUTH} ")[0] == "Tie"
    reordered = "at center a small blue square . at top-left a big red circle ."
    judgments = [compare(SCENE, f"image {index}", TRUTH, reordered)[0] for index in range(1500)]
    shares = {name: judgments.count(name) / 1500 for name in ("A", "B", "Tie")}
    # Difference of qualities ~ N(0.02, 0.05 * sqrt 2); a tie lies within 0.04: 0.413, A above: 0.389, B below: 0.198.
    assert shares["Tie"] == pytest.approx(0.413, abs=0.04)
    assert shares["A"] == pytest.approx(0.389, abs=0.04)
    assert shares["B"] == pytest.approx(0.198, abs=0.04)


def test_likert_judge_follows_quality_and_is_swayed_by_flattery():
    def average(caption: str) -> float:
        return sum(rate(SCENE, f"image {index}", caption) for index in range(300)) / 300

    half = "at top-left a big red circle ."
    assert average(TRUTH) > 9
    assert average(half) == pytest.approx(20 / 3, abs=0.3)
    assert average("") < 0.5
    assert average(FLATTERY) == pytest.approx(6, abs=0.3)
    assert average(half + " " + FLATTERY) > 9.5


def test_likert_judge_with_a_reference_trusts_it_as_much_as_the_picture():
    half = TRUTH.split(" . ")[0] + " ."  # one of the two objects: F1 is 2/3, with the picture and with the truth
    for caption, reference, quality in [(TRUTH, half, 5 / 6), (half, half, 5 / 6), (half, TRUTH, 2 / 3)]:
        ratings = [rate(SCENE, f"image {number}", caption, reference) for number in range(300)]
        assert sum(ratings) / len(ratings) == pytest.approx(10 * quality, abs=0.2)
    asked = f"<reference>\n{half}\n</reference>\n<caption>\n{TRUTH}\n</caption>"
    assert likert_judge_reply(asked, SCENE, "image 1") == str(rate(SCENE, "image 1", TRUTH, half))


def test_answers_of_the_seeing_judges_have_their_formats():
    scene = generate_scene(1, 1)
    good, poor = write_caption(scene), write_caption(View(scene.objects[:1]))
    both = f"<caption_a>\n{good}\n</caption_a>\n<caption_b>\n{poor}\n</caption_b>"
    answer = json.loads(pairwise_judge_reply(both, scene, "image"))
    assert set(answer) == {"reason", "judgment"}
    assert answer["judgment"] == "A"
    assert int(likert_judge_reply(f"<caption>\n{write_caption(scene)}\n</caption>", scene, "image")) >= 8
    assert "no <caption>" in likert_judge_reply("rate it", scene, "image")
    assert "no <caption_a>" in pairwise_judge_reply("compare them", scene, "image")


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        (NamesObject("top-left", "circle"), 0.05),
        (NamesNothingAt("right"), 0.05),
        (HasAttribute("top-left", "red"), 0.15),
        (ReadsWord("CAT"), 0.15),
        (HasAttribute("top-left", "big"), 0.3),
        (GivesCount(2), 0.3),
    ],
)
def test_the_uneven_judge_errs_most_on_details(rule, share):
    captions = [f"{TRUTH} {number}" for number in range(2_000)]
    criterion = {"id": 1, "criterion": "c", "evaluation_rule": write_rule(rule)}
    replies = [json.loads(uneven_judge_reply(prompt([criterion], caption))) for caption in captions]
    wrong = [
        reply["verdicts"][0]["score"] != holds(rule, caption) for reply, caption in zip(replies, captions, strict=True)
    ]
    assert sum(wrong) / len(wrong) == pytest.approx(share, abs=0.03)
    assert uneven_judge_reply("hello") == NOTHING_TO_JUDGE
