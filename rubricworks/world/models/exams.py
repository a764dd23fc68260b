"""Two models for exams: `exam-writer` asks about the scene that it sees, `exam-taker` answers from a caption alone.

Questions are about the shape, colour or size of the object at a place, about the number of objects and about the word,
so that none reveals another one's answer. The taker believes the caption. If the caption leaves a question open, it
selects "cannot answer" where that is an option, and guesses otherwise.
"""

import json
import random
import re

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.questions import LETTERS
from rubricworks.world.scene.scene import CELLS, COLOURS, MAX_OBJECTS, MIN_OBJECTS, SHAPES, SIZES, WORDS, Scene, rng_of
from rubricworks.world.scene.statements import caption_mentions

WRITER_ERROR_RATE = 0.01
"""Probability, per question, that its key names a wrong option."""
TAKER_ERROR_RATE = 0.02
"""Probability, per answer, that it is an unintended option."""
MIN_QUESTIONS, MAX_QUESTIONS = 4, 6
NO_QUESTION = "I answer questions from a caption; send <caption>, <question> and lettered <options>."

_ATTRIBUTES: dict[str, tuple[str, ...]] = {"shape": SHAPES, "colour": COLOURS, "size": SIZES}
_COUNT_QUESTION = "How many objects are in the picture?"
_WORD_QUESTION = "Which word is written in the picture?"
_OBJECT_QUESTION = re.compile(r"What (shape|colour|size) is the object at (the [a-z ]+)\?")
_OPTION = re.compile(r"([A-Z])\. (.*)")
_CANNOT_ANSWER = re.compile(r"(?i)\s*cannot answer\b.*")
_CELL_OF = {place(cell): cell for cell in CELLS}


def exam_writer_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """An exam of four to six questions about the scene as JSON."""
    if scene is None:
        raise ApiError(400, "exam-writer looks at an image; send one as an image_url part", param="messages")
    rng = rng_of("exam writer", seed, request.seed, scene.model_dump_json())
    object_questions = [
        (f"What {kind} is the object at {place(item.cell)}?", str(getattr(item, kind)), values)
        for item in scene.objects
        for kind, values in _ATTRIBUTES.items()
    ]
    numbers = tuple(str(number) for number in range(MIN_OBJECTS, MAX_OBJECTS + 1))
    questions = [(_COUNT_QUESTION, str(len(scene.objects)), numbers)]
    if scene.word is not None:
        questions.append((_WORD_QUESTION, scene.word, WORDS))
    count = rng.randint(MIN_QUESTIONS, MAX_QUESTIONS)
    questions += rng.sample(object_questions, min(len(object_questions), count - len(questions)))
    rng.shuffle(questions)
    return json.dumps({"questions": [_multiple_choice(*question, rng) for question in questions]})


def exam_taker_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """A letter; prose without an exam question."""
    caption, question = section(request.prompt, "caption"), section(request.prompt, "question")
    options = dict(_OPTION.findall(section(request.prompt, "options") or ""))
    if caption is None or question is None or not options:
        return NO_QUESTION
    rng = rng_of("exam taker", seed, request.prompt)
    answer = answer_from_caption(caption, question)
    fitting = [letter for letter, option in options.items() if option == answer]
    fitting = fitting or [letter for letter, option in options.items() if _CANNOT_ANSWER.fullmatch(option)]
    choice = fitting[0] if fitting else rng.choice(list(options))
    if rng.random() < TAKER_ERROR_RATE and len(options) > 1:
        choice = rng.choice([letter for letter in options if letter != choice])
    return choice


def answer_from_caption(caption: str, question: str) -> str | None:
    """The caption's answer to a question; None if it gives none or several."""
    if question == _COUNT_QUESTION:
        answers = {str(count) for count in caption_mentions(caption).counts}
    elif question == _WORD_QUESTION:
        answers = set(mentions(caption).words)
    elif (match := _OBJECT_QUESTION.fullmatch(question)) and match[2] in _CELL_OF:
        objects = [item for item in mentions(caption).objects if item.cell == _CELL_OF[match[2]]]
        answers = {value for item in objects if (value := getattr(item, match[1])) is not None}
    else:
        answers = set()
    return answers.pop() if len(answers) == 1 else None


def _multiple_choice(question: str, answer: str, values: tuple[str, ...], rng: random.Random) -> dict[str, object]:
    """The question with its answer among up to four options."""
    wrong = rng.sample([value for value in values if value != answer], min(3, len(values) - 1))
    options = rng.sample([answer, *wrong], 1 + len(wrong))
    key = wrong[0] if rng.random() < WRITER_ERROR_RATE else answer
    return {"question": question, "options": options, "answer": LETTERS[options.index(key)]}
