"""A judge's list of assertions becomes three rewards, its failures errors and never numbers. Real servers."""

import asyncio
import json
import random

import pytest
from assessed import (
    CAPTION,
    OF_CAPTION,
    OF_REFERENCE,
    PNG,
    REFERENCE,
    assessment,
    decomposition,
    grade,
    shows_image,
    text_of,
    verification,
)
from pydantic import ValidationError
from scripted_server import fail, say

from rubricworks.data.images import no_image
from rubricworks.errors import UserError
from rubricworks.grading import AssertionGrader, GradedCaption
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.rewards import CaptionScores
from rubricworks.rubrics import CaptionAssertions, ErrorClass


def reply(answer=None, **parts):
    return say(json.dumps(assessment(**parts) if answer is None else answer))


def changed(change):
    answer = assessment()
    change(answer["synthetic_features"], answer["gt_features"])
    return reply(answer)


def test_shares_and_ratings_become_the_three_scores(serve):
    server = serve([reply()])
    graded = grade(server)
    assert graded.scores == CaptionScores(3 / 5, 2 / 3, pytest.approx((9 + 6 + 3) / 27))
    assert graded.assertions == CaptionAssertions.model_validate(assessment())
    assert (graded.sample_id, graded.caption, graded.reference) == ("s1", CAPTION, REFERENCE)
    assert (graded.judge, graded.error, graded.message) == ("judge", None, "")
    assert graded.dropped == graded.dropped_of_reference == ()


def test_one_request_shows_image_caption_and_reference(serve):
    server = serve([reply()])
    grade(server)
    (request,) = server.chats
    assert shows_image(request.body)
    assert text_of(request.body) == f"<caption>\n{CAPTION}\n</caption>\n\n<reference>\n{REFERENCE}\n</reference>"


def test_any_marks_are_counted_as_by_hand(serve):
    rng = random.Random(7)

    def marks():
        return [rng.random() < 0.5 for _ in range(rng.randint(1, 12))]

    cases = [(marks(), marks(), [rng.randint(1, 10) for _ in range(3)]) for _ in range(60)]
    text = " ".join(f"Object{place} is round." for place in range(12))

    def script(_, body):
        verified, covered, ratings = cases[int(text_of(body).partition("Case ")[2].partition(".")[0])]
        listed = [
            tuple((f"object{place} is round", mark) for place, mark in enumerate(verdict))
            for verdict in (verified, covered)
        ]
        return reply(of_caption=listed[0], of_reference=listed[1], ratings=ratings)

    async def run():
        async with ChatClient(Endpoint(url=serve(script).url, model="judge")) as client:
            grader = AssertionGrader(client)
            grading = [grader.grade("s", PNG, f"Case {case}. {text}", text) for case in range(len(cases))]
            return await asyncio.gather(*grading)

    for graded, (verified, covered, ratings) in zip(asyncio.run(run()), cases, strict=True):
        precision, recall, linguistic = graded.scores
        assert precision == pytest.approx(len([mark for mark in verified if mark]) / len(verified))
        assert recall == pytest.approx(len([mark for mark in covered if mark]) / len(covered))
        assert linguistic == pytest.approx((sum(ratings) / 3 - 1) / 9)


def test_a_claim_that_the_caption_makes_twice_counts_twice(serve):
    twice = (("There is a dog", True), ("There is a dog", True), ("The sky is pink", False))
    graded = grade(serve([reply(of_caption=twice)]), caption="A dog. A dog. The sky is pink.")
    assert graded.scores.precision == pytest.approx(2 / 3)


def test_what_caption_or_reference_does_not_say_is_dropped_and_kept_apart(serve):
    invented = (*OF_CAPTION, ("Two elephants drink water", True))
    unsaid = (("A bridge crosses the river", True), *OF_REFERENCE)
    graded = grade(serve([reply(of_caption=invented, of_reference=unsaid)]))
    assert graded.dropped == ("Two elephants drink water",)
    assert graded.dropped_of_reference == ("A bridge crosses the river",)
    assert graded.scores == grade(serve([reply()])).scores
    assert graded.assertions == CaptionAssertions.model_validate(assessment())


def test_without_an_overlap_nothing_is_dropped_with_one_judge_or_two(serve):
    listed = (*OF_CAPTION, ("Two elephants drink water", True))
    together = grade(serve([reply(of_caption=listed)]), min_overlap=0)
    apart = grade(
        serve([say(json.dumps(decomposition(of_caption=listed)))]),
        serve([say(json.dumps(verification(listed)))]),
        min_overlap=0,
    )
    for graded in (together, apart):
        assert graded.dropped == graded.dropped_of_reference == ()
        assert len(graded.assertions.synthetic_features.atomic_assertions) == len(listed)
    assert together.scores == apart.scores


@pytest.mark.parametrize("min_overlap", [-0.1, 1.1])
def test_an_overlap_is_a_share(min_overlap):
    with pytest.raises(UserError, match="from 0 to 1"):
        AssertionGrader(ChatClient("http://127.0.0.1:1/v1", "m"), min_overlap=min_overlap)


@pytest.mark.slow
@pytest.mark.parametrize(
    "bad",
    [
        say("The caption is lovely: 10/10."),
        say("[]"),
        say('{"verdicts": []}'),
        reply({"synthetic_features": assessment()["synthetic_features"]}),
        changed(lambda caption, _: caption.pop("atomic_assertions")),
        changed(lambda _, reference: reference.pop("atomic_assertions")),
        changed(lambda caption, _: caption.update(atomic_assertions=None)),
        changed(lambda caption, _: caption["atomic_assertions"].append("a red car")),
        changed(lambda caption, _: caption.pop("linguistic_scores_explanation")),
        changed(lambda caption, _: caption.update(style_score=3)),
        *(reply(ratings=(score, 5, 5)) for score in (0, 11, -1, "9/10", "9", 9.0, 8.5, True, None)),
        *(reply(of_caption=(*OF_CAPTION, ("A man", mark))) for mark in ("true", 1, None, "yes")),
        *(reply(of_reference=(*OF_REFERENCE, ("A man", mark))) for mark in ("true", 0, None)),
        reply(of_caption=(*OF_CAPTION, ("car " * 500 + "c", True))),
        *(reply(of_caption=(*OF_CAPTION, (text, True))) for text in ("", "  ", 7)),
        reply(of_caption=()),
        reply(of_reference=()),
        reply(of_caption=(("Two elephants drink water", True), ("A bridge is closed", False))),
        reply(of_reference=(("Two elephants drink water", True),)),
        reply(of_caption=(*OF_CAPTION, ("The car is red", True))),
        reply(of_caption=(*OF_CAPTION, *(("the car  is RED.", True),) * 20)),
        reply(of_reference=(*OF_REFERENCE, *OF_REFERENCE)),
        say(json.dumps(assessment()).replace('"is_verified": true', '"is_verified": false, "is_verified": true', 1)),
        say(json.dumps(assessment())[:-1] + ', "gt_features": {"atomic_assertions": []}}'),
        say(json.dumps(assessment()) * 2),
        say(json.dumps(assessment()).replace("10,", "NaN,")),
    ],
)
def test_a_malformed_answer_is_asked_for_again_and_then_an_error_and_never_a_number(serve, bad):
    letters = []
    server = serve([bad])
    graded = grade(server, on_error=letters.append)
    assert len(server.chats) == 3
    assert (graded.error, graded.scores, graded.assertions) == (ErrorClass.MALFORMED, None, None)
    assert graded.message
    (letter,) = letters
    assert (letter.sample_id, letter.response, letter.judge, letter.criteria) == (
        "s1",
        CAPTION,
        "judge",
        ("assertions",),
    )
    assert letter.error.attempts == 3

    mended = serve([bad, reply()])
    assert grade(mended).scores == grade(serve([reply()])).scores
    assert "cannot be used" in mended.chats[1].body["messages"][-1]["content"]


def test_two_thousand_characters_are_an_assertion_yet():
    longest = ("car " * 500)[:1999] + "s"
    assert CaptionAssertions.model_validate(assessment(of_caption=((longest, True),)))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (say(None, refusal="I will not"), ErrorClass.REFUSED),
        (say(json.dumps(assessment())[:-9], finish="length"), ErrorClass.TRUNCATED),
        (fail(503), ErrorClass.TRANSPORT),
        (fail(401), ErrorClass.TRANSPORT),
    ],
)
def test_an_outage_or_refusal_leaves_an_error(serve, bad, error):
    graded = grade(serve([bad]))
    assert (graded.error, graded.scores) == (error, None)


@pytest.mark.parametrize("blank", ["", "  \n", "...", "\u2014 !", "\U0001f600\U0001f600"])
def test_a_caption_without_words_earns_nothing_and_costs_no_call(serve, blank):
    server = serve([reply()])
    graded = grade(server, caption=blank)
    assert graded.scores == (0, 0, 0)
    assert (graded.error, graded.assertions) == (None, None)
    assert server.chats == []


@pytest.mark.parametrize("blank", ["", " ", "..."])
@pytest.mark.parametrize("caption", ["", CAPTION])
def test_a_reference_without_words_is_the_datas_fault_and_names_the_sample(serve, blank, caption):
    server = serve([reply()])
    with pytest.raises(UserError, match="sample s1: the reference caption has no words"):
        grade(server, caption=caption, reference=blank)
    assert server.chats == []


@pytest.mark.parametrize("image", [b"", b"GIF89a", no_image("a path")])
def test_an_image_that_cannot_be_shown_is_not_judged_and_asks_nobody(serve, image):
    server = serve([reply()])
    graded = grade(server, image=image)
    assert (graded.scores, graded.error, server.chats) == (None, ErrorClass.UNREADABLE, [])
    assert "the sample has no readable image: " in graded.message


def test_an_image_that_is_no_bytes_names_the_sample(serve):
    with pytest.raises(UserError, match=r"sample s1: the image is str; give the bytes of a PNG or JPEG"):
        grade(serve([reply()]), image="path.png")


def test_an_unknown_test_of_pointability_is_named():
    with pytest.raises(UserError, match="pointability is 'loose'; choose strict or evidence or off"):
        AssertionGrader(ChatClient("http://127.0.0.1:1/v1", "m"), pointability="loose")


def test_a_graded_caption_survives_json_and_is_judged_or_an_error():
    whole = {"sample_id": "s1", "caption": CAPTION, "reference": REFERENCE, "judge": "j"}
    judged = GradedCaption(**whole, assertions=assessment(), dropped=("a bird",))
    again = GradedCaption.model_validate_json(judged.model_dump_json())
    assert again == judged
    assert again.scores == judged.scores
    with pytest.raises(ValidationError, match="give its assertions or an error"):
        GradedCaption(**whole)
    with pytest.raises(ValidationError, match="either assertions or an error"):
        GradedCaption(**whole, assertions=assessment(), error=ErrorClass.REFUSED)
    assert GradedCaption(**whole, error=ErrorClass.REFUSED).scores is None


def test_a_stored_answer_without_assertions_has_no_scores():
    whole = {"sample_id": "s1", "caption": CAPTION, "reference": REFERENCE, "judge": "j"}
    for part in ({"of_caption": ()}, {"of_reference": ()}):
        assert GradedCaption(**whole, assertions=assessment(**part)).scores is None


def test_a_jpeg_is_shown_as_well(serve):
    server = serve([reply()])
    assert grade(server, image=b"\xff\xd8\xff" + PNG).scores is not None
    assert "data:image/jpeg" in json.dumps(server.chats[0].body)
