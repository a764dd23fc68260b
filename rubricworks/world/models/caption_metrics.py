"""Scripted models of three caption metrics: DCScore's judge, CAPTURE's parser, CaptionQA's exam writer and exam taker.

`fact-judge` splits captions into facts, matches facts, and checks them against a scene. The request's content selects
the task: a caption, two lists of facts, or facts and an image. Each decision is flipped at a stated rate.

`graph-parser` writes a caption's scene graph, without errors and without a look at the image.

`exam-writer` asks about the scene that it sees, `exam-taker` answers from a caption alone. Questions are about the
shape, colour or size of the object at a place, about the number of objects and about the word, so that none reveals
another one's answer. The taker believes the caption. If the caption leaves a question open, it selects "cannot answer"
where that is an option, and guesses otherwise.
"""

import json
import random
import re

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import LETTERS
from rubricworks.world.scene.scene import CELLS, COLOURS, MAX_OBJECTS, MIN_OBJECTS, SHAPES, SIZES, WORDS, Scene, rng_of
from rubricworks.world.scene.statements import (
    caption_mentions,
    is_supported,
    read_statement,
    scene_mentions,
    statements,
)

FACT_ERROR_RATE = 0.02
"""Probability, per decision (a fact's relevance, its match, its truth), that it is wrong."""
NO_FACTS = "I judge facts about images; send <caption>, or <facts> with an image or with <reference_facts>."

_NUMBERED = re.compile(r"(\d+)\. (.*)")


def fact_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer to any of the three requests of `evaluation.caption_prompts`."""
    if (caption := section(request.prompt, "caption")) is not None:
        return json.dumps({"facts": _facts(caption, seed)})
    facts, reference = (_numbered(section(request.prompt, tag)) for tag in ("facts", "reference_facts"))
    if reference:
        return json.dumps({"matches": _matches(facts, reference, seed)})
    if not facts:
        return NO_FACTS
    if scene is None:
        raise ApiError(400, "fact-judge checks facts against an image; send one as an image_url part", param="messages")
    return json.dumps({"checks": _checks(facts, scene, seed)})


def _facts(caption: str, seed: int) -> list[dict[str, object]]:
    """The caption's distinct claims; a remark is not relevant."""
    facts: list[dict[str, object]] = []
    for claim in dict.fromkeys(statements(caption)):
        errs = rng_of("relevant", seed, caption, claim.text).random() < FACT_ERROR_RATE
        facts.append({"fact": claim.text, "relevant": (claim.remark is None) != errs})
    return facts


def _matches(facts: dict[int, str], reference: dict[int, str], seed: int) -> list[dict[str, object]]:
    """The first equivalent reference fact of each fact; an error replaces a match by none, and none by any."""
    matches: list[dict[str, object]] = []
    for number, fact in facts.items():
        same = next((at for at, other in reference.items() if read_statement(other) == read_statement(fact)), None)
        rng = rng_of("match", seed, fact, *reference.values())
        if rng.random() < FACT_ERROR_RATE:
            same = rng.choice(list(reference)) if same is None else None
        matches.append({"fact": number, "reference": same})
    return matches


def _checks(facts: dict[int, str], scene: Scene, seed: int) -> list[dict[str, object]]:
    view, place = scene_mentions(scene), scene.model_dump_json()
    checks: list[dict[str, object]] = []
    for number, fact in facts.items():
        errs = rng_of("check", seed, place, fact).random() < FACT_ERROR_RATE
        is_true = all(is_supported(claim, view) for claim in read_statement(fact))
        checks.append({"fact": number, "is_true": is_true != errs})
    return checks


def _numbered(text: str | None) -> dict[int, str]:
    return {int(number): line for number, line in _NUMBERED.findall(text or "")}


NOTHING_TO_PARSE = "I parse captions into scene graphs; this message holds no <caption>."


def graph_parser_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The JSON answer: shapes are objects, colours and sizes their attributes, places and sides relations."""
    if (caption := section(request.prompt, "caption")) is None:
        return NOTHING_TO_PARSE
    stated = mentions(caption)
    objects: dict[str, dict[str, None]] = {}
    relations: dict[tuple[str, str, str], None] = {}
    for item in stated.objects:
        objects.setdefault(_noun(item), {}).update(dict.fromkeys(word for word in (item.size, item.colour) if word))
        if item.cell:
            objects.setdefault(item.cell, {})
            relations[_noun(item), "at", item.cell] = None
    for relation in stated.relations:
        for item in (relation.subject, relation.other):
            objects.setdefault(_noun(item), {}).update(dict.fromkeys([item.colour] if item.colour else []))
        relations[_noun(relation.subject), relation.kind, _noun(relation.other)] = None
    for word in stated.words:
        objects.setdefault("word", {})[word.lower()] = None
    return json.dumps(
        {
            "objects": list(objects),
            "attributes": [{"object": name, "attributes": list(words)} for name, words in objects.items() if words],
            "relations": [
                dict(zip(("subject", "relation", "object"), relation, strict=True)) for relation in relations
            ],
        }
    )


def _noun(item: Mention) -> str:
    return item.shape or "object"


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
