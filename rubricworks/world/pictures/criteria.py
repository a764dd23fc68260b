"""Sentences of criteria about pictures, and DPG-Bench's questions: scripted models write them and read them back.

A question depends on those whose shapes it is about, as in the benchmark. The wording is a criterion's as a question,
so that what asks and what answers share one parser (`parse_criterion`).
"""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rubricworks.world.pictures.drawing import COLOURS, SHAPES, Shape
from rubricworks.world.pictures.prompts import NUMBERS, PLURAL, RELATIONS, TEMPLATES, Subject, Wish, wishes
from rubricworks.world.pictures.prompts import TASKS as _TASKS

SHARP = "Every shape in the picture is complete and sharp."
PLAIN = "The background is plain, without specks or smears."
_WISHES = {wish.words: wish for task in _TASKS for wish in wishes(task)}
_CORES = [re.compile(re.escape(template).replace(r"\{\}", "(.+)")) for template in sorted(TEMPLATES, key=len)[::-1]]


class Candidate(NamedTuple):
    """A criterion as the writer answers it."""

    key: str
    criterion: str
    evidence: str
    """Words of the prompt that it rests on; empty for a criterion of quality."""


def parse_prompt(prompt: str) -> Wish | None:
    """Content of a prompt of this world; None for any other text."""
    text = " ".join(prompt.split()).rstrip(".").lower()
    for core in _CORES:
        if (match := core.fullmatch(text)) and (wish := _WISHES.get(match[1])):
            return wish
    return None


def candidates_of(wish: Wish) -> list[Candidate]:
    """Every right criterion about a prompt, those of fidelity first."""
    candidates: list[Candidate] = []
    subjects = [wish.first, *([wish.second] if wish.second else [])]
    for subject in subjects:
        candidates.append(Candidate("object_presence", f"There is at least one {subject.shape}.", subject.shape))
        if subject.count > 1:
            count = f"There are exactly {NUMBERS[subject.count]} {PLURAL[subject.shape]}."
        else:
            count = f"There is exactly one {subject.shape}."
        candidates.append(Candidate("object_count", count, subject.words))
        if subject.colour:
            candidates.append(
                Candidate("attribute_accuracy", f"The {subject.shape} is {subject.colour}.", subject.words)
            )
    if wish.relation and wish.second:
        relation = f"The {wish.first.shape} is {wish.relation} the {wish.second.shape}."
        candidates.append(Candidate("spatial_relation", relation, wish.words))
    total = sum(subject.count for subject in subjects)
    shapes = "shape" if total == 1 else "shapes"
    candidates.append(Candidate("scene_coherence", f"The picture shows exactly {total} {shapes} in all.", ""))
    candidates.append(Candidate("realism", SHARP, ""))
    candidates.append(Candidate("aesthetics", PLAIN, ""))
    return candidates


class Check(NamedTuple):
    """Check that a criterion makes of a picture."""

    kind: str
    """presence, count, colour, relation, total, sharp, plain."""
    subject: Subject | None = None
    other: Shape | None = None
    relation: str | None = None
    total: int = 0


_NAME = "|".join(SHAPES)
_COUNTS = {"one": 1, **{word: number for number, word in NUMBERS.items()}}
_SINGULAR = {plural: shape for shape, plural in PLURAL.items()} | {shape: shape for shape in SHAPES}
_PRESENCE = re.compile(rf"there is at least one ({_NAME})")
_COUNT = re.compile(rf"there (?:is|are) exactly ({'|'.join(_COUNTS)}) ({'|'.join(_SINGULAR)})")
_COLOUR = re.compile(rf"the ({_NAME}) is ({'|'.join(COLOURS)})")
_RELATION = re.compile(rf"the ({_NAME}) is ({'|'.join(RELATIONS)}) the ({_NAME})")
_TOTAL = re.compile(r"the picture shows exactly (\d+) shapes? in all")


def parse_criterion(sentence: str) -> Check | None:
    """Check that a criterion asks for; None for a sentence that this world does not know."""
    text = sentence.strip().rstrip(".").lower()
    if text == SHARP.rstrip(".").lower():
        return Check("sharp")
    if text == PLAIN.rstrip(".").lower():
        return Check("plain")
    if match := _PRESENCE.fullmatch(text):
        return Check("presence", Subject(match[1]))  # type: ignore[arg-type]
    if match := _COUNT.fullmatch(text):
        return Check("count", Subject(_SINGULAR[match[2]], count=_COUNTS[match[1]]))
    if match := _COLOUR.fullmatch(text):
        return Check("colour", Subject(match[1], match[2]))  # type: ignore[arg-type]
    if match := _RELATION.fullmatch(text):
        return Check("relation", Subject(match[1]), match[3], match[2])  # type: ignore[arg-type]
    if match := _TOTAL.fullmatch(text):
        return Check("total", total=int(match[1]))
    return None


DPG_COLUMNS = (
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
        writer.writerow(DPG_COLUMNS)
        for item, (text, wish) in enumerate(prompts):
            for number, question in enumerate(questions_of(wish), start=1):
                category = question.proposition.split(" (")[0]
                broad, detailed = category.split(" - ")
                dependency = ",".join(map(str, question.dependency))
                row = (f"scene{item:04d}", text, "", number, dependency, broad, detailed, question.proposition)
                writer.writerow((*row, question.text))
