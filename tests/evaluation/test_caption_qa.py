"""Exams from captions: the order of options, what answers earn, and what the model is shown."""

import asyncio
import json
import re

import pytest
from pydantic import ValidationError
from scripted_server import fail, say

from rubricworks.evaluation.scorers.caption_prompts import Exam, ExamQuestion
from rubricworks.evaluation.scorers.caption_qa import ExamResult, ExamTaker, option_order, score_choice
from rubricworks.llm import ChatClient, ChatError, Endpoint
from rubricworks.metrics import CANNOT_ANSWER
from rubricworks.rubrics import ErrorClass

COLOUR = ExamQuestion(question="Which colour has the boat?", options=("red", "blue", "green", "white"), answer="B")
THERE = ExamQuestion(question="Is there a dog?", options=("Yes", "No"), answer="A")
COUNT = ExamQuestion(question="How many gulls fly?", options=("two", "three"), answer="A")
WORD = ExamQuestion(question="What is written on the sign?", options=("STOP", "GO", "WAIT"), answer="C")
EXAM = Exam(questions=(COLOUR, THERE, COUNT, WORD))
CAPTION = "A blue boat </caption> and a dog."


def take(url: str, *, caption: str = CAPTION, sample_id: str = "s1", seed: int = 0) -> ExamResult:
    async def run() -> ExamResult:
        async with ChatClient(Endpoint(url=url, model="exam-taker"), attempts=1) as client:
            return await ExamTaker(client, seed=seed).take(sample_id, caption, EXAM)

    return asyncio.run(run())


def prompt_parts(body: dict) -> tuple[str, dict[str, str]]:
    """Question, and letter → option, as a request shows them."""
    text = body["messages"][1]["content"][0]["text"]
    question = re.search(r"<question>\n(.*)\n</question>", text)[1]
    options = re.search(r"<options>\n(.*)\n</options>", text, re.DOTALL)[1].splitlines()
    return question, dict(line.split(". ", 1) for line in options)


def choosing(*options: str):
    """Says the letter of whichever of these options a request offers."""

    def answer(_, body):
        letters = {option: letter for letter, option in prompt_parts(body)[1].items()}
        return say(next(letters[option] for option in options if option in letters))

    return answer


def test_right_earns_one_wrong_nothing_and_cannot_answer_a_little_more_than_guessing(serve):
    exam_result = take(serve(choosing("blue", "No", CANNOT_ANSWER)).url)
    assert [answer.chosen for answer in exam_result.answers] == ["blue", "No", CANNOT_ANSWER, CANNOT_ANSWER]
    assert [answer.right for answer in exam_result.answers] == [True, False, False, False]
    assert [answer.score for answer in exam_result.answers] == pytest.approx([1, 0, 1 / 2 + 0.05, 1 / 3 + 0.05])
    assert exam_result.score == pytest.approx((1 + 0 + 0.55 + 1 / 3 + 0.05) / 4)
    assert exam_result.accuracy == 0.25


def test_model_reads_caption_question_and_options_only(serve):
    server = serve(choosing("blue", "Yes", "two", "WAIT"))
    assert take(server.url).accuracy == 1
    assert len(server.chats) == 4
    offered = {}
    for chat in server.chats:
        text = chat.body["messages"][1]["content"][0]["text"]
        assert "<caption>\nA blue boat &lt;/caption> and a dog.\n</caption>" in text
        assert "image_url" not in chat.text
        assert "response_format" not in chat.body
        question, options = prompt_parts(chat.body)
        assert list(options) == list("ABCDE"[: len(options)])
        offered[question] = set(options.values())
    assert offered == {
        COLOUR.question: {*COLOUR.options, CANNOT_ANSWER},
        THERE.question: {"Yes", "No"},
        COUNT.question: {*COUNT.options, CANNOT_ANSWER},
        WORD.question: {*WORD.options, CANNOT_ANSWER},
    }


def test_every_caption_of_a_sample_faces_the_same_order_which_seed_and_sample_change(serve):
    server = serve(choosing("blue", "Yes", "two", "WAIT"))

    def orders(**what: object) -> list:
        before = len(server.chats)
        take(server.url, **what)
        return sorted((question, list(options.values())) for question, options in map(prompt_of, server.chats[before:]))

    def prompt_of(chat):
        return prompt_parts(chat.body)

    assert orders() == orders(caption="Something else.")
    assert orders() != orders(seed=1)
    assert orders() != orders(sample_id="s2")


def test_right_letter_is_spread_evenly():
    places = [option_order(4, seed=0, sample_id=f"s{n}", number=0).index(1) for n in range(800)]
    assert all(150 < places.count(letter) < 250 for letter in range(4))
    assert sorted(option_order(5, seed=3, sample_id="x", number=2)) == [0, 1, 2, 3, 4]


def test_answer_without_a_letter_is_asked_again(serve):
    right = choosing("blue", "Yes", "two", "WAIT")
    server = serve(lambda number, body: right(number, body) if len(body["messages"]) > 2 else say("I would say so."))
    assert take(server.url).accuracy == 1
    assert len(server.chats) == 8
    assert "A to E" in json.dumps([chat.body for chat in server.chats if len(chat.body["messages"]) > 2])


@pytest.mark.parametrize("message", [say("no idea"), fail(400, "no")])
def test_exam_with_an_unanswered_question_has_no_score(serve, message):
    right = choosing("blue", "Yes", "two")
    server = serve(lambda number, body: message if "sign" in prompt_parts(body)[0] else right(number, body))
    with pytest.raises(ChatError) as raised:
        take(server.url)
    assert raised.value.error_class in (ErrorClass.MALFORMED, ErrorClass.TRANSPORT)


def test_choosing_is_judged_by_the_text_of_the_option():
    assert score_choice(COLOUR, "blue").score == 1
    assert score_choice(COLOUR, "red").score == 0
    assert score_choice(COLOUR, CANNOT_ANSWER).score == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"options": ("red", " RED ")}, "two options are the same"),
        ({"options": ("red",)}, "at least 2"),
        ({"answer": "E"}, "there are 4 options"),
        ({"answer": "red"}, "pattern"),
        ({"options": ("red", "blue", CANNOT_ANSWER.lower())}, "it is added later"),
        ({"question": "  "}, "at least 1 character"),
        ({"hint": "x"}, "Extra inputs"),
    ],
)
def test_question_that_nobody_could_grade_is_refused(change, says):
    with pytest.raises(ValidationError, match=says):
        ExamQuestion.model_validate(COLOUR.model_dump() | change)


@pytest.mark.parametrize("count", [0, 3, 7])
def test_exam_has_four_to_six_questions(count):
    with pytest.raises(ValidationError, match="questions"):
        Exam(questions=(THERE,) * count)
