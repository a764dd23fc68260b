"""Exams: questions that the scene answers, and a taker that knows the caption alone; error rates as stated."""

import json

import pytest

from rubricworks.evaluation.scorers.caption_prompts import (
    CANNOT_ANSWER,
    LETTERS,
    Exam,
    exam_taker_messages,
    exam_writer_messages,
)
from rubricworks.world.chat import ApiError, ChatRequest, read_request
from rubricworks.world.models.caption_metrics import (
    NO_QUESTION,
    TAKER_ERROR_RATE,
    WRITER_ERROR_RATE,
    answer_from_caption,
    exam_taker_reply,
    exam_writer_reply,
)
from rubricworks.world.scene.captions import View, write_caption
from rubricworks.world.scene.render import render_png
from rubricworks.world.scene.scene import Scene, SceneObject, generate_scenes

SCENES = list(generate_scenes(8, 250))
SCENE = Scene(
    objects=(
        SceneObject(cell="top-left", size="big", colour="red", shape="circle"),
        SceneObject(cell="center", size="small", colour="blue", shape="square"),
    ),
    word="CAT",
)
CAPTION = write_caption(SCENE)
COLOUR_QUESTION = "What colour is the object at the top left?"


def write(scene: Scene, seed: int = 0) -> Exam:
    body = {"model": "exam-writer", "messages": exam_writer_messages(render_png(SCENES[0])), "seed": seed}
    return Exam.model_validate_json(exam_writer_reply(read_request(body), scene, 1))


def take(caption: str, question: str, options: list[str]) -> str:
    request = read_request({"model": "exam-taker", "messages": exam_taker_messages(caption, question, options)})
    assert request.image is None
    return options[LETTERS.index(exam_taker_reply(request, None, 1))]


def test_exams_have_four_to_six_questions_that_a_full_caption_answers():
    sizes, wrong, question_count = set(), 0, 0
    for scene in SCENES:
        exam, caption = write(scene), write_caption(scene)
        sizes.add(len(exam.questions))
        assert len({question.question for question in exam.questions}) == len(exam.questions)
        for question in exam.questions:
            says = answer_from_caption(caption, question.question)
            assert says in question.options
            question_count, wrong = (
                question_count + 1,
                wrong + (question.options[LETTERS.index(question.answer)] != says),
            )
    assert sizes == {4, 5, 6}
    assert wrong / question_count == pytest.approx(WRITER_ERROR_RATE, abs=0.008)


def test_right_letters_are_spread_over_the_options():
    keys = [question.answer for scene in SCENES for question in write(scene).questions if len(question.options) == 4]
    assert all(keys.count(letter) / len(keys) == pytest.approx(0.25, abs=0.06) for letter in "ABCD")


def test_same_image_same_exam_and_another_seed_another_one():
    assert write(SCENE) == write(SCENE)
    assert len({write(SCENE, seed) for seed in range(8)}) > 4


@pytest.mark.parametrize(
    ("caption", "question", "answer"),
    [
        (CAPTION, COLOUR_QUESTION, "red"),
        (CAPTION, "What shape is the object at the center?", "square"),
        (CAPTION, "What size is the object at the center?", "small"),
        (CAPTION, "How many objects are in the picture?", "2"),
        ("there are 3 objects .", "How many objects are in the picture?", "3"),
        (CAPTION, "Which word is written in the picture?", "CAT"),
        ("there is a violet circle in the upper left .", COLOUR_QUESTION, "purple"),
        (write_caption(View(SCENE.objects[1:])), COLOUR_QUESTION, None),
        ("at top-left a big circle .", COLOUR_QUESTION, None),
        ("at top-left a red circle . at top-left a blue circle .", COLOUR_QUESTION, None),
        ("the word CAT . the word SUN .", "Which word is written in the picture?", None),
        (CAPTION, "What is the meaning of life?", None),
        ("", COLOUR_QUESTION, None),
    ],
)
def test_caption_says_one_answer_or_none(caption: str, question: str, answer: str | None):
    assert answer_from_caption(caption, question) == answer


def test_taker_errs_at_the_stated_rate_and_else_chooses_what_the_caption_says():
    options = ["red", "green", "blue", "black", CANNOT_ANSWER]
    captions = [f"{CAPTION} {number} more words" for number in range(1500)]
    for expected, question in (("red", COLOUR_QUESTION), (CANNOT_ANSWER, "What colour is the object at the bottom?")):
        choices = [take(caption, question, options) for caption in captions]
        errors = sum(choice != expected for choice in choices)
        assert errors / len(choices) == pytest.approx(TAKER_ERROR_RATE, abs=0.012)


def test_taker_guesses_where_it_may_not_pass():
    options = ["red", "green", "blue", "black"]
    choices = [take(f"nothing {number}", COLOUR_QUESTION, options) for number in range(800)]
    assert all(choices.count(option) / len(choices) == pytest.approx(0.25, abs=0.06) for option in options)
    passed = [take(f"at top-left a violet star {n} .", COLOUR_QUESTION, [*options, CANNOT_ANSWER]) for n in range(100)]
    assert passed.count(CANNOT_ANSWER) > 90  # it says a colour that is none of the options


def test_requests_without_an_image_or_a_question_are_answered_as_such():
    body = {"model": "exam-taker", "messages": [{"role": "user", "content": "hello"}]}
    assert exam_taker_reply(read_request(body), None, 1) == NO_QUESTION
    request: ChatRequest = read_request(body | {"model": "exam-writer"})
    with pytest.raises(ApiError, match="looks at an image"):
        exam_writer_reply(request, None, 1)
    assert json.loads(exam_writer_reply(request, SCENE, 1))["questions"]
