"""The scripted merger of checklists: the criteria that most candidates have, with their most common reference.

It recognizes two wordings of one criterion, and drops criteria that are neither the answer nor a step towards it. It
works from the candidates' words; its own error rates are stated below.
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

MINORITY_REFERENCE_RATE = 0.02
"""Probability, per criterion with differing references, that the least common one is used."""
IRRELEVANT_RATE = 0.03
"""Probability, per checklist, that irrelevant criteria stay in it."""

_CANDIDATE = re.compile(r'<candidate name="[^"\n]+">\n(.*?)\n</candidate>', re.DOTALL)
_ENDS_WITH = re.compile(r"the response ends with the (.+)")


class _Proposal(NamedTuple):
    """A criterion of one candidate."""

    candidate: int
    essential: bool
    item: Item


def checklist_merger_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The merged checklist as JSON, appendix A.1; prose without a question or candidates."""
    task = ChecklistTask(request, scene)
    candidates = [json.loads(text) for text in _CANDIDATE.findall(request.prompt)]
    if task.query is None or not candidates:
        return NO_QUESTION
    main = answer_criterion(task.query, bool(task.options))
    return json.dumps(merge(candidates, main, task.rng(request, seed)))


def merge(candidates: list[dict[str, list[Item]]], main: str, rng: random.Random) -> dict[str, list[Item]]:
    """Merge several checklists into one.

    Args:
        main: the criterion of the answer, in this world's words.
    """
    proposals: defaultdict[str, list[_Proposal]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        for essential in (True, False):
            for item in candidate["essential" if essential else "additional"]:
                criterion = _canonical_criterion(item["criterion"], main)
                if all(proposal.candidate != number for proposal in proposals[criterion]):
                    proposals[criterion].append(_Proposal(number, essential, item))
    keeps_irrelevant = rng.random() < IRRELEVANT_RATE
    merged: dict[str, list[Item]] = {"essential": [], "additional": []}
    for criterion, votes in proposals.items():
        relevant = criterion == main or parse_step_criterion(criterion) is not None
        if (relevant and 2 * len(votes) > len(candidates)) or (keeps_irrelevant and not relevant):
            essential = 2 * sum(vote.essential for vote in votes) > len(votes)
            merged["essential" if essential else "additional"].append(_merge_item(criterion, votes, rng))
    return merged


def _merge_item(criterion: str, votes: list[_Proposal], rng: random.Random) -> Item:
    references = Counter(vote.item["reference"] for vote in votes).most_common()
    minority = rng.random() < MINORITY_REFERENCE_RATE
    weights = sorted(vote.item["weight"] for vote in votes)
    return {
        "criterion": criterion,
        "reference": references[-1 if minority else 0][0],
        "weight": min(weights[len(weights) // 2], ANSWER_WEIGHT),
    }


def _canonical_criterion(criterion: str, main: str) -> str:
    """`main` for any wording of the answer's criterion, else the criterion unchanged."""
    plain = " ".join(criterion.lower().split()).rstrip(".")
    if is_answer_criterion(criterion) or (
        (match := _ENDS_WITH.fullmatch(plain)) and main.lower().rstrip(".").endswith(match[1])
    ):
        return main
    return criterion
