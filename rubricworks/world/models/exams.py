"""Two models of exams: one writes questions about the scene that it sees, one answers them from a caption alone.

Questions are about one object's shape, colour or size, named by its place, about the number of objects and about the
word, so that none gives another one's answer away. The taker believes the caption. What the caption leaves open it
says it cannot answer where that is an option, and guesses otherwise.
"""

import json
import random
import re

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.questions import LETTERS
from rubricworks.world.scene.scene import CELLS, COLOURS, MAX_OBJECTS, MIN_OBJECTS, SHAPES, SIZES, WORDS, Scene, rng_of
from rubricworks.world.scene.statements import view_of_caption

WRITER_ERROR_RATE = 0.01
"""Chance, per question, that its key names a wrong option."""
TAKER_ERROR_RATE = 0.02
"""Chance, per answer, that it is another option than the one meant."""
FEWEST_QUESTIONS, MOST_QUESTIONS = 4, 6
NO_QUESTION = "I answer questions from a caption; send <caption>, <question> and lettered <options>."

_ATTRIBUTES: dict[str, tuple[str, ...]] = {"shape": SHAPES, "colour": COLOURS, "size": SIZES}
_HOW_MANY = "How many objects are in the picture?"
_WHICH_WORD = "Which word is written in the picture?"
_ABOUT_AN_OBJECT = re.compile(r"What (shape|colour|size) is the object at (the [a-z ]+)\?")
_OPTION = re.compile(r"([A-Z])\. (.*)")
_CANNOT_ANSWER = re.compile(r"(?i)\s*cannot answer\b.*")
_CELL_OF = {place(cell): cell for cell in CELLS}


def answer_exam_writer(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """An exam of four to six questions about the scene as JSON."""
    if scene is None:
        raise ApiError(400, "exam-writer looks at an image; send one as an image_url part", param="messages")
    rng = rng_of("exam writer", seed, request.seed, scene.model_dump_json())
    about_objects = [
        (f"What {kind} is the object at {place(item.cell)}?", str(getattr(item, kind)), values)
        for item in scene.objects
        for kind, values in _ATTRIBUTES.items()
    ]
    numbers = tuple(str(number) for number in range(MIN_OBJECTS, MAX_OBJECTS + 1))
    asked = [(_HOW_MANY, str(len(scene.objects)), numbers)]
    if scene.word is not None:
        asked.append((_WHICH_WORD, scene.word, WORDS))
    wanted = rng.randint(FEWEST_QUESTIONS, MOST_QUESTIONS)
    asked += rng.sample(about_objects, min(len(about_objects), wanted - len(asked)))
    rng.shuffle(asked)
    return json.dumps({"questions": [_written(*one, rng) for one in asked]})


def answer_exam_taker(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """A letter; prose when the request holds no exam question."""
    caption, question = section(request.prompt, "caption"), section(request.prompt, "question")
    lettered = dict(_OPTION.findall(section(request.prompt, "options") or ""))
    if caption is None or question is None or not lettered:
        return NO_QUESTION
    rng = rng_of("exam taker", seed, request.prompt)
    meant = what_it_says(caption, question)
    fitting = [letter for letter, option in lettered.items() if option == meant]
    fitting = fitting or [letter for letter, option in lettered.items() if _CANNOT_ANSWER.fullmatch(option)]
    chosen = fitting[0] if fitting else rng.choice(list(lettered))
    if rng.random() < TAKER_ERROR_RATE and len(lettered) > 1:
        chosen = rng.choice([letter for letter in lettered if letter != chosen])
    return chosen


def what_it_says(caption: str, question: str) -> str | None:
    """The answer that the caption gives to a question, None where it gives none or several."""
    if question == _HOW_MANY:
        said = {str(count) for count in view_of_caption(caption).counts}
    elif question == _WHICH_WORD:
        said = set(mentions(caption).words)
    elif (match := _ABOUT_AN_OBJECT.fullmatch(question)) and match[2] in _CELL_OF:
        there = [item for item in mentions(caption).objects if item.cell == _CELL_OF[match[2]]]
        said = {value for item in there if (value := getattr(item, match[1])) is not None}
    else:
        said = set()
    return said.pop() if len(said) == 1 else None


def _written(question: str, answer: str, values: tuple[str, ...], rng: random.Random) -> dict[str, object]:
    """The question with its answer among up to four options."""
    wrong = rng.sample([value for value in values if value != answer], min(3, len(values) - 1))
    options = rng.sample([answer, *wrong], 1 + len(wrong))
    key = wrong[0] if rng.random() < WRITER_ERROR_RATE else answer
    return {"question": question, "options": options, "answer": LETTERS[options.index(key)]}
