"""The scripted rubric writers: RubiCap's three steps, from the captions in their prompt.

They get the image like any writer, but work from the text alone: consensus of the candidates, deficiencies of the
student, weighted binary criteria. They make no mistakes of their own; their errors are those that enough candidates
share. `rubric-writer` counts what the student invented as a critical failure, and its rules fail a caption that
contradicts itself. `lenient-rubric-writer` ignores inventions and lets such captions pass: with the paper's
discriminative coverage alone, listing guesses then pays. Only the standing guards, which a prompt may ask for, hold
against it.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import Mention, Mentions, mentions
from rubricworks.world.scene.rules import (
    GivesCount,
    HasAttribute,
    NamesExactly,
    NamesNothingAt,
    NamesObject,
    NamesOnly,
    ReadsNoWord,
    ReadsWord,
    Rule,
    holds,
    noun_phrase,
    write_rule,
)
from rubricworks.world.scene.scene import CELLS, Cell

CRITICAL, IMPORTANT, MINOR = 3, 2, 1

_STUDENT = re.compile(r"<student_caption>\n(.*?)\n</student_caption>", re.DOTALL)
_CANDIDATE = re.compile(r'<candidate name="([^"\n]+)">\n(.*?)\n</candidate>', re.DOTALL)
_CONSENSUS = re.compile(r"^Consensus: at least (\d+) of \d+", re.MULTILINE)
_COVERAGE = re.compile(r"^Coverage: (discriminative|full)\b", re.MULTILINE)
_GUARDS = re.compile(r"^Standing guards: (yes|no)\b", re.MULTILINE)


class WriterTask(NamedTuple):
    """A parsed writer's prompt. Settings that it leaves out are the paper's."""

    students: tuple[str, ...]
    candidates: dict[str, str]
    threshold: int
    coverage: str
    guards: bool


class Element(NamedTuple):
    """A statement that enough candidates make, and the rule that checks it."""

    rule: Rule
    title: str
    measures: str
    weight: int
    agreed: str


def read_task(prompt: str) -> WriterTask:
    """Parse a writer's prompt."""
    candidates = dict(_CANDIDATE.findall(prompt))
    consensus, coverage, guards = (pattern.search(prompt) for pattern in (_CONSENSUS, _COVERAGE, _GUARDS))
    return WriterTask(
        students=tuple(_STUDENT.findall(prompt)),
        candidates=candidates,
        threshold=max(1, int(consensus[1]) if consensus else ceil(len(candidates) / 2)),
        coverage=coverage[1] if coverage else "discriminative",
        guards=guards is not None and guards[1] == "yes",
    )


def rubric_writer_reply(prompt: str) -> str:
    """The JSON answer of `rubric-writer` to a prompt."""
    return json.dumps({"rubrics": write_rubric(read_task(prompt))})


def lenient_rubric_writer_reply(prompt: str) -> str:
    """The JSON answer of `lenient-rubric-writer` to a prompt."""
    return json.dumps({"rubrics": write_rubric(read_task(prompt), lenient=True)})


def write_rubric(task: WriterTask, *, lenient: bool = False) -> list[dict[str, object]]:
    """The criteria in the paper's JSON fields; empty if the student fails nowhere and no guards are requested.

    Args:
        lenient: ignore what the student invented, and let captions pass that contradict themselves.
    """
    stated = {name: mentions(caption) for name, caption in task.candidates.items()}
    objects = {cell: _consensus_object(cell, stated, task.threshold) for cell in CELLS}
    agreed = {cell: mention for cell, mention in objects.items() if mention is not None}
    words = tuple(_agreed_values({name: caption.words for name, caption in stated.items()}, task.threshold)[:1])
    counts = _agreed_values({name: caption.counts for name, caption in stated.items()}, task.threshold)[:1]
    rubric = []
    elements = list(_elements(agreed, words, counts, lenient))
    if not lenient and task.candidates:
        elements += _inventions([mentions(caption) for caption in task.students], agreed, words)
    for element in elements:
        met = bool(task.students) and all(holds(element.rule, caption) for caption in task.students)
        if task.coverage == "full" or not met:
            rubric.append(_criterion(element, met, task))
    if task.guards and agreed:
        rubric.extend(_guards(tuple(agreed.values()), words))
    return rubric


def _consensus_object(cell: str, stated: dict[str, Mentions], threshold: int) -> Mention | None:
    """The object at a cell by consensus of the candidates; an attribute without consensus stays None."""
    objects = {name: [item for item in caption.objects if item.cell == cell] for name, caption in stated.items()}
    if sum(map(bool, objects.values())) < threshold:
        return None

    def agreed_value(attribute: str) -> str | None:
        values = {name: [getattr(item, attribute) for item in items] for name, items in objects.items()}
        return next(iter(_agreed_values(values, threshold)), None)

    return Mention(cell, agreed_value("size"), agreed_value("colour"), agreed_value("shape"))


def _agreed_values(values: Mapping[str, Sequence[Any]], threshold: int) -> list[Any]:
    """Values stated by enough candidates, most frequent first; None counts as no statement."""
    votes = Counter(value for stated in values.values() for value in dict.fromkeys(stated) if value is not None)
    return [value for value, count in votes.most_common() if count >= threshold]


def _elements(
    agreed: Mapping[Cell, Mention], words: Sequence[str], counts: Sequence[int], lenient: bool
) -> Iterator[Element]:
    any_big = any(item.size == "big" for item in agreed.values())
    for cell, item in agreed.items():
        where = place(cell)
        noun = item.shape or "object"
        main = item.size == "big" or not any_big
        yield Element(
            NamesObject(cell, item.shape, lenient),
            f"Names the {noun} at {where}",
            f"Whether the {'main' if main else 'secondary'} object at {where} is found and called what it is.",
            CRITICAL if main else IMPORTANT,
            f"there is {noun_phrase(Mention(cell=cell, shape=item.shape))}",
        )
        for aspect, value, weight in (("colour", item.colour, IMPORTANT), ("size", item.size, MINOR)):
            if value is not None:
                yield Element(
                    HasAttribute(cell, value, lenient),
                    f"Says that the object at {where} is {value}",
                    f"Whether the {aspect} of the object at {where} is right.",
                    weight,
                    f"the object at {where} is {value}",
                )
    for word in words:
        yield Element(
            ReadsWord(word, lenient),
            f"Reads the word {word}",
            "Whether the text in the picture is copied.",
            IMPORTANT,
            f"the word {word} is written in the picture",
        )
    for count in counts:
        yield Element(
            GivesCount(count, lenient),
            "Says how many objects there are",
            "Whether the reader learns how many objects to expect.",
            MINOR,
            f"there are {count} objects",
        )


def _inventions(students: Sequence[Mentions], agreed: Mapping[Cell, Mention], words: Sequence[str]) -> list[Element]:
    """A critical element for each place where a student caption names an object and too few candidates do."""
    named = {item.cell for student in students for item in student.objects}
    inventions = [
        Element(
            NamesNothingAt(cell),
            f"Names nothing at {place(cell)}",
            f"Whether an object is invented at {place(cell)}.",
            CRITICAL,
            f"there is nothing at {place(cell)}",
        )
        for cell in CELLS
        if cell in named and cell not in agreed
    ]
    if not words and any(student.words for student in students):
        inventions.append(
            Element(
                ReadsNoWord(),
                "Reads no word into the picture",
                "Whether a text is invented.",
                CRITICAL,
                "no word is written in the picture",
            )
        )
    return inventions


def _criterion(element: Element, met: bool, task: WriterTask) -> dict[str, object]:
    supporters = [name for name, caption in task.candidates.items() if holds(element.rule, caption)]
    support = f"{len(supporters)} of {len(task.candidates)} candidates agree"
    student = "every student caption says so" if met else "a student caption does not say so"
    return {
        "criterion": element.title,
        "description": element.measures,
        "evaluation_rule": write_rule(element.rule),
        "weight": element.weight,
        "justification": f"{support} that {element.agreed}; {student}.",
        "student_already_met": met,
        "reference_teachers": supporters,
        "teacher_consensus": element.agreed,
    }


def _guards(agreed: tuple[Mention, ...], words: tuple[str, ...]) -> list[dict[str, object]]:
    """Criteria that every caption must meet. Never flagged as met: a later policy may break what this student keeps."""
    content = "; ".join([*map(noun_phrase, agreed), *(f"the word {word}" for word in words)])
    guards = (
        (NamesOnly(agreed, words, spare=0), "Names nothing unsupported", CRITICAL),
        (NamesOnly(agreed, words, spare=1), "Names at most one unsupported thing", IMPORTANT),
        (NamesExactly(len(agreed)), "Names the right number of objects", IMPORTANT),
    )
    return [
        {
            "criterion": title,
            "description": "Standing guard: inventing, repeating or listing guesses must not pay.",
            "evaluation_rule": write_rule(rule),
            "weight": weight,
            "justification": "A standing guard; it applies whatever the student's caption says.",
            "student_already_met": False,
            "reference_teachers": [],
            "teacher_consensus": f"the picture shows {content}",
        }
        for rule, title, weight in guards
    ]
