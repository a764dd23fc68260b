"""Sentences of criteria about pictures: the scripted writer writes them, the scripted judge reads them."""

import re
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
