"""The scripted merger of checklists: what most candidates want checked, with the reference that most of them give.

It knows when two criteria of this world check the same, however they are put, and leaves out what is neither the answer
nor a step towards it. It works from the candidates' words; its own mistakes are stated below.
"""

import json
import random
import re
from collections import Counter, defaultdict
from typing import NamedTuple

from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.checklist_writers import ANSWER_WEIGHT, NO_QUESTION, ChecklistTask, Item
from rubricworks.world.scene.checklist_sentences import answer_criterion, is_answer_criterion, parse_step_criterion
from rubricworks.world.scene.scene import Scene

TAKES_A_MINORITY_REFERENCE = 0.02
"""Chance per criterion on whose reference the candidates differ."""
KEEPS_WHAT_IS_IRRELEVANT = 0.03
"""Chance per checklist that has something of the kind."""

_CANDIDATE = re.compile(r'<candidate name="[^"\n]+">\n(.*?)\n</candidate>', re.DOTALL)
_ENDS_WITH = re.compile(r"the response ends with the (.+)")


class _Wish(NamedTuple):
    """A criterion as one candidate has it."""

    candidate: int
    essential: bool
    item: Item


def answer_checklist_merger(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The merger's JSON, appendix A.1; prose where the message holds no question or no candidates."""
    task = ChecklistTask(request, scene)
    candidates = [json.loads(text) for text in _CANDIDATE.findall(request.prompt)]
    if task.query is None or not candidates:
        return NO_QUESTION
    asked = answer_criterion(task.query, bool(task.options))
    return json.dumps(merge(candidates, asked, task.rng(request, seed)))


def merge(candidates: list[dict[str, list[Item]]], asked: str, rng: random.Random) -> dict[str, list[Item]]:
    """One checklist of several.

    Args:
        asked: the criterion of the answer, as it should be put.
    """
    wishes: defaultdict[str, list[_Wish]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        for essential in (True, False):
            for item in candidate["essential" if essential else "additional"]:
                key = _what_is_checked(item["criterion"], asked)
                if all(wish.candidate != number for wish in wishes[key]):
                    wishes[key].append(_Wish(number, essential, item))
    stray = rng.random() < KEEPS_WHAT_IS_IRRELEVANT
    merged: dict[str, list[Item]] = {"essential": [], "additional": []}
    for key, wished in wishes.items():
        relevant = key == asked or parse_step_criterion(key) is not None
        if (relevant and 2 * len(wished) > len(candidates)) or (stray and not relevant):
            essential = 2 * sum(wish.essential for wish in wished) > len(wished)
            merged["essential" if essential else "additional"].append(_merged(key, wished, rng))
    return merged


def _merged(key: str, wished: list[_Wish], rng: random.Random) -> Item:
    references = Counter(wish.item["reference"] for wish in wished).most_common()
    minority = rng.random() < TAKES_A_MINORITY_REFERENCE
    weights = sorted(wish.item["weight"] for wish in wished)
    return {
        "criterion": key,
        "reference": references[-1 if minority else 0][0],
        "weight": min(weights[len(weights) // 2], ANSWER_WEIGHT),
    }


def _what_is_checked(criterion: str, asked: str) -> str:
    """The criterion, as this world puts it where it is one of its own."""
    plain = " ".join(criterion.lower().split()).rstrip(".")
    if is_answer_criterion(criterion) or (
        (found := _ENDS_WITH.fullmatch(plain)) and asked.lower().rstrip(".").endswith(found[1])
    ):
        return asked
    return criterion
