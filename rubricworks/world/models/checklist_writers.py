"""Three scripted writers of checklists with different faults: RLR³'s teachers, in this world's sentences.

They see the scene and take the right answer from the request if it is shown, else from their view of the scene. They
write one essential criterion of the answer and one step for each object that it depends on. Their mistakes depend on
(world seed, model, scene, request) alone; a repair request gets new draws. The faults violate the rules for checklists:
code can detect most of them, a majority of writers the others.

The scripted merger of checklists: the criteria that most candidates have, with their most common reference.

It recognizes two wordings of one criterion, and drops criteria that are neither the answer nor a step towards it. It
works from the candidates' words; its own error rates are stated below.
"""

import json
import random
import re
from collections import Counter, defaultdict
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from rubricworks.world.chat import ApiError, ChatRequest, section
from rubricworks.world.scene.captions import SceneLike, describe
from rubricworks.world.scene.checklist_sentences import (
    answer_criterion,
    is_answer_criterion,
    parse_step_criterion,
    step_criterion,
)
from rubricworks.world.scene.faults import Faults, perceive
from rubricworks.world.scene.questions import LETTERS, Query, answer_query, other_answers, parse_question, subjects_of
from rubricworks.world.scene.scene import CELLS, Scene, rng_of

Item = dict[str, Any]
"""A criterion of a checklist: `criterion`, `reference`, `weight`."""

NO_QUESTION = "I write checklists for questions about scenes; this message holds no question that I know."
ANSWER_WEIGHT = 3
_OPTION = re.compile(r"(?:^|\s)([A-F])\s+")
_VERIFIER = re.compile(r"^(\w+_verify)\(", re.MULTILINE)


class ChecklistFaults(BaseModel):
    """Probabilities, each per checklist."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    leaks: float = Field(default=0, ge=0, le=1)
    """The answer's criterion contains the answer."""
    judges: float = Field(default=0, ge=0, le=1)
    """The answer's criterion is a judgment, checked as an expression that must be True."""
    abuses: float = Field(default=0, ge=0, le=1)
    """The answer's criterion calls a verifier that its task does not have."""
    overweighs: float = Field(default=0, ge=0, le=1)
    """A criterion weighs 5."""
    joins: float = Field(default=0, ge=0, le=1)
    """An additional criterion asks for two things at once."""
    mistakes: float = Field(default=0, ge=0, le=1)
    """The answer's reference is a wrong answer, even if the request shows the right one."""
    strays: float = Field(default=0, ge=0, le=1)
    """An additional criterion is unrelated to the question."""
    skips: float = Field(default=0, ge=0, le=1)
    """A step is missing."""
    repeats: float = Field(default=0, ge=0, le=1)
    """The answer's criterion appears twice, in other words the second time."""
    sees: Faults = Faults()
    """Perception faults: they distort the references of steps, and of the answer if none is shown."""


CHECKLIST_WRITERS: dict[str, ChecklistFaults] = {
    "checklist-writer-1": ChecklistFaults(
        leaks=0.15, overweighs=0.05, mistakes=0.10, strays=0.30, skips=0.10,
        sees=Faults(omits_small=0.15, wrong_size=0.05),
    ),
    "checklist-writer-2": ChecklistFaults(
        judges=0.15, abuses=0.05, mistakes=0.08, joins=0.20, skips=0.15,
        sees=Faults(wrong_colour=0.15, wrong_cell=0.03),
    ),
    "checklist-writer-3": ChecklistFaults(
        overweighs=0.15, leaks=0.05, mistakes=0.12, repeats=0.30, strays=0.10,
        sees=Faults(wrong_shape=0.10, wrong_size=0.10),
    ),
}  # fmt: skip


class ChecklistTask:
    """A request for a checklist, to a writer or to the merger."""

    def __init__(self, request: ChatRequest, scene: Scene | None) -> None:
        """Raises ApiError without an image."""
        if scene is None:
            raise ApiError(400, f"{request.model} looks at an image; send one as an image_url part", param="messages")
        self.scene = scene
        self.prompt = request.prompt
        self.question = section(request.prompt, "question") or ""
        self.query = parse_question(self.question)
        self.options = options_of(self.question)
        self.reference_answer = section(request.prompt, "reference_answer")
        self.verifiers = tuple(_VERIFIER.findall(section(request.prompt, "verifiers") or ""))

    def rng(self, request: ChatRequest, seed: int) -> random.Random:
        return rng_of("checklist", seed, request.model, request.seed, self.scene.model_dump_json(), self.prompt)


def checklist_writer_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The checklist as JSON, appendix A.1; prose without a question of this world."""
    task = ChecklistTask(request, scene)
    if task.query is None:
        return NO_QUESTION
    faults = CHECKLIST_WRITERS[request.model]
    return json.dumps(write_checklist(task, task.query, faults, task.rng(request, seed)))


def write_checklist(
    task: ChecklistTask, query: Query, faults: ChecklistFaults, rng: random.Random
) -> dict[str, list[Item]]:
    """A checklist by a writer with these faults. Every fault is drawn, whether or not it has an effect."""
    errs = {name: rng.random() < getattr(faults, name) for name in ChecklistFaults.model_fields if name != "sees"}
    view = perceive(task.scene, faults.sees, rng)
    answer = _answer(task, query, view, errs["mistakes"], rng)
    criterion = answer_criterion(query, bool(task.options))
    subject = criterion[:-1].partition("gives ")[2]
    main: Item = {
        "criterion": criterion,
        "reference": reference_of(query, answer, bool(task.options), task.verifiers),
        "weight": ANSWER_WEIGHT,
    }
    steps = [
        {"criterion": step_criterion(item.cell), "reference": f"a {describe(item)}", "weight": rng.choice((1, 2))}
        for item in sorted(subjects_of(query, view), key=lambda item: CELLS.index(item.cell))
    ]
    if errs["skips"] and steps:
        steps.pop(rng.randrange(len(steps)))
    if errs["repeats"]:
        steps.append(main | {"criterion": f"The response ends with {subject}.", "weight": 2})
    if errs["joins"]:
        steps.append(
            {
                "criterion": f"The response describes what is asked about and gives {subject}.",
                "reference": f"both, and the answer is {answer}",
                "weight": 2,
            }
        )
    if errs["strays"]:
        steps.append(
            {"criterion": "The response mentions the background.", "reference": "the background is pale", "weight": 1}
        )
    if errs["abuses"]:
        foreign = [name for name in ("text_verify", "list_verify", "time_verify") if name not in task.verifiers]
        main["reference"] = f"{(*foreign, 'point_verify')[0]}(target={answer!r})"
    if errs["leaks"]:
        main["criterion"] = f"{criterion[:-1]}, which is {answer}."
    if errs["judges"]:
        main = {
            "criterion": f"The response correctly states that {subject} is as it should be.",
            "reference": "expr_verify(target='True')",
            "weight": ANSWER_WEIGHT,
        }
    if errs["overweighs"]:
        rng.choice([main, *steps])["weight"] = 5
    return {"essential": [main], "additional": steps}


def _answer(task: ChecklistTask, query: Query, view: SceneLike, mistaken: bool, rng: random.Random) -> str:
    """The answer in the reference: a letter, a number, a box as JSON, a word."""
    right = task.reference_answer if task.reference_answer is not None else answer_query(query, view)
    if task.options:
        if right in task.options:
            right = LETTERS[task.options.index(right)]
        letters = LETTERS[: len(task.options)]
        others = [letter for letter in letters if letter != right]
        return rng.choice(others) if mistaken or right is None or right not in letters else right
    if mistaken or right is None:
        right = rng.choice(other_answers(query, right or "")[:5])
    return " ".join(right.split())


def reference_of(query: Query, answer: str, multiple_choice: bool, verifiers: tuple[str, ...]) -> str:
    """The answer's reference: the call of the fitting verifier if the task offers it, else words."""
    if multiple_choice or query.task == "count":
        name, call = "expr_verify", f"expr_verify(target={answer!r})"
    elif query.task == "word":
        name, call = "text_verify", f"text_verify(target={answer!r}, ignore_case=True)"
    elif query.task == "box":
        numbers = re.findall(r"\d+", answer)
        name, call = "bbox_verify", f"bbox_verify(target=[[{', '.join(numbers)}]])"
    else:
        return answer
    return call if name in verifiers else answer


def options_of(question: str) -> tuple[str, ...]:
    """The options after a question on the same line: "what colour is the star ? A red B green"."""
    parts = _OPTION.split(question.rpartition("?")[2])[1:]
    letters, texts = parts[::2], parts[1::2]
    return tuple(text.strip() for text in texts) if letters == list(LETTERS[: len(letters)]) else ()


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
