"""Questions about pictures in DPG-Bench's form, from the content of a prompt, and the check that each makes.

A question depends on those whose shapes it is about, as in the benchmark. The wording is a criterion's as a question,
so that what asks and what answers share one parser (`criteria.parse_criterion`).

Scripted answerer of yes-or-no questions about a picture, for DPG-Bench; it errs at a stated rate.

It sees what `picture_reading.look_at_regions` reads, with draws of its own, and does not read the prompt.
"""

import csv
import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.pictures.criteria import Check, parse_criterion
from rubricworks.world.pictures.picture_judge import holds
from rubricworks.world.pictures.picture_reading import look_at_regions
from rubricworks.world.pictures.prompts import NUMBERS, PLURAL, Wish
from rubricworks.world.scene.scene import rng_of

COLUMNS = (
    "item_id", "text", "keywords", "proposition_id", "dependency", "category_broad", "category_detailed", "tuple",
    "question_natural_language",
)  # fmt: skip
"""Those of the benchmark's `dpg_bench.csv`."""
_THERE = re.compile(r"(is|are) there (.+)\?", re.IGNORECASE)
_IS = re.compile(r"is (the \w+) (.+)\?", re.IGNORECASE)


class Question(NamedTuple):
    """One row of the file."""

    dependency: tuple[int, ...]
    """Numbers of the questions that it depends on; 0 for none."""
    proposition: str
    """For instance "attribute - color (circle, red)"."""
    text: str


def questions_of(wish: Wish) -> list[Question]:
    """Questions about the images of a prompt, numbered from 1 in this order."""
    questions: list[Question] = []
    entities: list[int] = []
    for subject in [wish.first, *([wish.second] if wish.second else [])]:
        shape = subject.shape
        questions.append(Question((0,), f"entity - whole ({shape})", f"Is there at least one {shape}?"))
        entities.append(len(questions))
        if subject.count > 1:
            words = f"exactly {NUMBERS[subject.count]} {PLURAL[shape]}"
            proposition = f"other - count ({shape}, =={subject.count})"
            questions.append(Question((entities[-1],), proposition, f"Are there {words}?"))
        if subject.colour:
            proposition = f"attribute - color ({shape}, {subject.colour})"
            questions.append(Question((entities[-1],), proposition, f"Is the {shape} {subject.colour}?"))
    if wish.relation and wish.second:
        first, second = wish.first.shape, wish.second.shape
        proposition = f"relation - spatial ({first}, {second}, {wish.relation})"
        questions.append(Question(tuple(entities), proposition, f"Is the {first} {wish.relation} the {second}?"))
    return questions


def check_of(question: str) -> Check | None:
    """Check that a question asks for; None for one that this world does not ask."""
    if match := _THERE.fullmatch(question.strip()):
        return parse_criterion(f"There {match[1].lower()} {match[2]}.")
    if match := _IS.fullmatch(question.strip()):
        return parse_criterion(f"{match[1]} is {match[2]}.")
    return None


def write_questions(path: Path, prompts: Iterable[tuple[str, Wish]]) -> None:
    """Write the questions about prompts, given as text and content, as a file of the benchmark's form."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for item, (text, wish) in enumerate(prompts):
            for number, question in enumerate(questions_of(wish), start=1):
                category = question.proposition.split(" (")[0]
                broad, detailed = category.split(" - ")
                dependency = ",".join(map(str, question.dependency))
                row = (f"scene{item:04d}", text, "", number, dependency, broad, detailed, question.proposition)
                writer.writerow((*row, question.text))


ERROR_RATE = 0.03


def picture_questions_reply(request: ChatRequest, seed: int) -> str:
    """Answer the request's question about its image.

    Raises:
        ApiError: the request has no question, or no picture of this world's size.
    """
    question = section(request.prompt, "question")
    if question is None:
        raise ApiError(400, "send the question between <question> tags", param="messages")
    if request.image is None:
        raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
    right = holds(check_of(question), look_at_regions(request.image))
    digest = hashlib.sha256(request.image).hexdigest()
    wrong = rng_of("picture questions", seed, digest, question).random() < ERROR_RATE
    return json.dumps({"answer": "yes" if right != wrong else "no"})
