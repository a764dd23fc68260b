"""DCScore's fact judge over HTTP: what it is shown, what it must answer, what a failure leaves."""

import asyncio
import json

import pytest
from scripted_server import Said, fail, say

from rubricworks.evaluation.scorers.dc_score import FactJudge, FactJudgment
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.metrics import NO_WORDS

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
CAPTION, REFERENCE = "A red boat and a car. It is calm.", "A red boat by a pier."

FACTS = {
    CAPTION: [
        ("There is a boat.", True),
        ("The boat is red.", True),
        ("There is a car.", True),
        ("It is calm.", False),
    ],
    REFERENCE: [("There is a boat.", True), ("The boat is red.", True), ("A pier is beside the boat.", True)],
}
ANSWERS = {
    "reference_facts": {
        "matches": [
            {"fact": 1, "reference": 1},
            {"fact": 2, "reference": 2},
            {"fact": 3, "reference": None},
            {"fact": 4, "reference": None},
        ]
    },
    "image": {"checks": [{"fact": number, "is_true": number < 3} for number in (1, 2, 3, 4)]},
}


def kind_of(body: dict) -> str:
    parts = body["messages"][1]["content"]
    if any(part["type"] == "image_url" for part in parts):
        return "image"
    return "reference_facts" if "<reference_facts>" in parts[0]["text"] else "caption"


def answer(_: int, body: dict) -> Said:
    kind = kind_of(body)
    if kind != "caption":
        return say(json.dumps(ANSWERS[kind]))
    caption = body["messages"][1]["content"][0]["text"].split("\n")[1]
    return say(json.dumps({"facts": [{"fact": text, "relevant": relevant} for text, relevant in FACTS[caption]]}))


def judge(url: str, caption: str = CAPTION, reference: str = REFERENCE, image: bytes = PNG) -> FactJudgment:
    async def run() -> FactJudgment:
        async with ChatClient(Endpoint(url=url, model="fact-judge"), attempts=1) as client:
            return await FactJudge(client).judge(image, caption, reference)

    return asyncio.run(run())


def test_an_image_that_cannot_be_shown_is_refused_before_anything_is_asked(serve):
    server = serve(answer)
    with pytest.raises(ValueError, match="neither PNG nor JPEG"):
        judge(server.url, image=b"GIF89a")
    assert server.chats == []


def test_only_the_check_of_a_caption_sees_the_image(serve):
    server = serve(answer)
    judged = judge(server.url)
    every, relevant = judged.score
    # 2 of 4 are true, both in the reference, which has a third; the comment is left out of the relevant ones.
    assert (every.precision, every.recall) == (pytest.approx(2 / 4), pytest.approx(2 / 3))
    assert (relevant.precision, relevant.recall) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert [(fact.is_true, fact.reference) for fact in judged.stated] == [
        (True, 0),
        (True, 1),
        (False, None),
        (False, None),
    ]
    assert sorted(kind_of(chat.body) for chat in server.chats) == ["caption", "caption", "image", "reference_facts"]
    check = next(chat for chat in server.chats if kind_of(chat.body) == "image")
    assert (
        "1. There is a boat.\n2. The boat is red.\n3. There is a car.\n4. It is calm."
        in json.loads(check.text)["messages"][1]["content"][1]["text"]
    )
    assert "pier" not in check.text


@pytest.mark.parametrize("caption", ["", " \n", "... !"])
def test_caption_without_words_scores_zero_unasked(serve, caption):
    server = serve([fail(400, "no")])
    assert judge(server.url, caption).score == NO_WORDS
    assert NO_WORDS.score == 0
    assert not server.chats


BROKEN = [
    ("image", {"checks": ANSWERS["image"]["checks"][:3]}, "the facts 1 to 4"),
    ("image", {"checks": [*ANSWERS["image"]["checks"][:3], {"fact": 3, "is_true": True}]}, "the facts 1 to 4"),
    ("image", {"checks": [{"fact": n, "is_true": "yes"} for n in (1, 2, 3, 4)]}, "boolean"),
    ("reference_facts", {"matches": [{"fact": n, "reference": 4} for n in (1, 2, 3, 4)]}, "no reference fact 4"),
    ("reference_facts", {"matches": [{"fact": n, "reference": 0} for n in (1, 2, 3, 4)]}, "greater than or equal to 1"),
    ("caption", {"facts": [{"fact": "", "relevant": True}]}, "at least 1 character"),
]


@pytest.mark.parametrize(("kind", "message", "hint"), BROKEN)
def test_answer_that_does_not_fit_is_mended_once_told_what_is_wrong(serve, kind, message, hint):
    def script(number: int, body: dict) -> Said:
        first = len(body["messages"]) == 2 and kind_of(body) == kind
        return say(json.dumps(message)) if first else answer(number, body)

    server = serve(script)
    assert judge(server.url).score.every.recall == pytest.approx(2 / 3)
    repairs = [chat.body["messages"][-1]["content"] for chat in server.chats if len(chat.body["messages"]) > 2]
    assert repairs
    assert all(hint in str(repair) for repair in repairs)


@pytest.mark.parametrize("kind", ["caption", "image", "reference_facts"])
@pytest.mark.parametrize("message", [fail(400, "no"), say("I will not.")])
def test_failed_call_leaves_no_score(serve, kind, message):
    server = serve(lambda number, body: message if kind_of(body) == kind else answer(number, body))
    with pytest.raises(ChatError):
        judge(server.url)


@pytest.mark.parametrize("silent", [CAPTION, REFERENCE])
def test_no_fact_in_a_text_with_words_is_the_judges_failure(serve, silent):
    def script(number: int, body: dict) -> Said:
        empty = kind_of(body) == "caption" and silent in str(body["messages"][1])
        return say('{"facts": []}') if empty else answer(number, body)

    with pytest.raises(
        ChatError, match="no fact was found in the " + ("caption" if silent == CAPTION else "reference")
    ):
        judge(serve(script).url)
