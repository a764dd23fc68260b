r"""Scripted scorers that apply a checklist to a response, as RLR³'s extractor and judge do, with stated faults.

A request holds `<question>`, `<response>` and `<checklist>`; a reference is the name of a verifier, its call with the
target, or ground truth in words. The scorer knows nothing else.

The answer is the content of the last `\boxed{}`; a step gets 1 if size, colour and shape are right at its cell, 0.5 if
colour or shape is, else 0. A scorer's errors depend on question, response and criterion alone, so that scoring a
response again does not remove an error, and exposure settings differ only by what they show.

`scorer` and `scorer-1` to `scorer-3` only slip (`SCORERS` has the rates). `weak-scorer` slips too, and has faults with
these probabilities per criterion:

    the response has no final answer, and the scorer    text   image  targets  unverified
      extracts what the analysis implies                0.10   0.10   0.10     -
        or, where the response evades the answer        0.15   0.15   0.15     -
      else extracts what it sees in the image           -      0.05   -        -
      else extracts the target                          -      -      0.08     -
      credits an answer that the analysis implies       0.25   0.25   0.25     0.25
        or any, where the response evades it            0.20   0.20   0.20     0.20
      else credits what it sees in the image            -      0.05   -        -
    the final answer is another one, and the scorer
      follows what the analysis implies                 0.04   0.04   0.04     0.04
      else the image, or extracts the target            -      0.01   0.04     -
    a step is not described, and the scorer
      credits what it sees in the image                 -      0.04   -        -

Without verifiers every answer is credited, with them only open ones (colours, sides); `unverified` changes nothing
else. A response whose box follows from its description gets the same scores in all settings.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.boxed import last_boxed
from rubricworks.verifiers.verifier_table import VERIFIERS
from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.scene.answers import (
    ResponseParts,
    call_of,
    credit_of,
    misread,
    read_response,
    same_value,
    step_credit,
    value_text,
)
from rubricworks.world.scene.attacks import has_bluff, has_circumlocution
from rubricworks.world.scene.captions import SceneLike, View
from rubricworks.world.scene.checklist_sentences import is_answer_criterion, parse_step_criterion
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import Query, answer_query, parse_question
from rubricworks.world.scene.scene import Scene, SceneObject, rng_of

NOTHING_TO_SCORE = "I score responses by checklists; this message holds no <checklist> that I can read."
_LONGEST_ANSWER = 2_000
_OPTION = re.compile(r"(?<![\w-])([A-F])[.:)]?\s+(\w+)")


@dataclass(frozen=True)
class ScorerFaults:
    """Probabilities, per criterion unless stated otherwise. The table above says when each applies."""

    wrong_credit: float = 0.0
    """A credit one step off."""
    wrong_extraction: float = 0.0
    """A final answer misread or overlooked."""
    malformed: float = 0.0
    """Per request: the JSON does not fit its schema, except in answer to a repair request."""
    extracts_implied: float = 0.0
    extracts_implied_of_evasion: float = 0.0
    credits_implied: float = 0.0
    credits_evasion: float = 0.0
    prefers_implied: float = 0.0
    self_answers: float = 0.0
    prefers_image: float = 0.0
    credits_seen_step: float = 0.0
    copies_target: float = 0.0
    prefers_target: float = 0.0


SCORERS = {
    "scorer": ScorerFaults(wrong_credit=0.005, wrong_extraction=0.005, malformed=0.005),
    "scorer-1": ScorerFaults(wrong_credit=0.02, wrong_extraction=0.02, malformed=0.01),
    "scorer-2": ScorerFaults(wrong_credit=0.04, wrong_extraction=0.02, malformed=0.01),
    "scorer-3": ScorerFaults(wrong_credit=0.03, wrong_extraction=0.04, malformed=0.01),
    "weak-scorer": ScorerFaults(
        wrong_credit=0.03,
        wrong_extraction=0.02,
        malformed=0.01,
        extracts_implied=0.10,
        extracts_implied_of_evasion=0.15,
        credits_implied=0.25,
        credits_evasion=0.20,
        prefers_implied=0.04,
        self_answers=0.05,
        prefers_image=0.01,
        credits_seen_step=0.04,
        copies_target=0.08,
        prefers_target=0.04,
    ),
}
"""`scorer-1` to `scorer-3` are teachers whose median labels responses; `scorer` is the policy's judge."""


class ChecklistEntry(NamedTuple):
    """One criterion as the request shows it."""

    criterion: str
    tool: str | None
    """The verifier to call; None if the scorer gives the credit itself."""
    reference: str
    """Ground truth in words; empty if a verifier is named."""
    target: Any = None
    """The verifier's target if the request shows it."""


class ScoringTask(NamedTuple):
    """A parsed request."""

    question: str
    response: str
    essential: tuple[ChecklistEntry, ...]
    additional: tuple[ChecklistEntry, ...]
    repaired: bool
    """True if the request reports an error of an earlier answer."""


class ParsedAnswer(NamedTuple):
    """A response, parsed with its question in view."""

    objects: tuple[Mention, ...]
    """The objects described outside the boxes."""
    final: str | None
    """The content of the last box; None without one, or if it is empty."""
    implied: str | None
    """The answer that follows from the described objects, stated or not."""
    evades: bool
    """True if the response talks around the answer, or claims that a derivation yields it."""


def read_task(prompt: str) -> ScoringTask | None:
    """The task in a request's text; None without a checklist."""
    question, response, checklist = (section(prompt, tag) for tag in ("question", "response", "checklist"))
    try:
        listed = json.loads(checklist or "")
        essential, additional = (tuple(map(_entry, listed[name])) for name in ("essential", "additional"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    repaired = bool(prompt.rpartition("</checklist>")[2].strip())
    return ScoringTask(_unescape(question), _unescape(response), essential, additional, repaired)


def parse_answer(question: str, response: str) -> ParsedAnswer:
    """Parse a response to the question."""
    parts = read_response(response)
    final = (last_boxed(response) or "")[:_LONGEST_ANSWER]
    evades = has_circumlocution(response) or has_bluff(response)
    return ParsedAnswer(parts.objects, final or None, _implied_answer(question, parts), evades)


def answer_question(question: str, view: SceneLike) -> str | None:
    """The answer that follows from the view; for a multiple-choice question the letter."""
    query = _query(question)
    answer = answer_query(query, view) if query else None
    options = _options(question)
    if answer is None or not options:
        return answer
    return next((letter for letter, option in options if option == answer), None)


def scorer_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The scoring as JSON; prose without a checklist."""
    task = read_task(request.prompt)
    if task is None:
        return NOTHING_TO_SCORE
    scorer = _Scorer(request.model, SCORERS[request.model], task, scene, seed)
    final = scorer.answer.final
    scoring: dict[str, object] = {
        "thought": f"The response {f'ends with {final}' if final else 'has no final answer'}.",
        "essential": [scorer.score(entry) for entry in task.essential],
        "additional": [scorer.score(entry) for entry in task.additional],
    }
    return scorer.write(scoring)


class _Scorer:
    """One scorer on one request."""

    def __init__(self, name: str, faults: ScorerFaults, task: ScoringTask, scene: Scene | None, seed: int) -> None:
        self.faults, self.task, self.scene = faults, task, scene
        self.answer = parse_answer(task.question, task.response)
        self.scene_answer = answer_question(task.question, scene) if scene else None
        self._seed = (name, seed, task.question, task.response)

    def score(self, entry: ChecklistEntry) -> dict[str, object]:
        rng = rng_of("scorer", *self._seed, entry.criterion)
        chance = rng.random()
        if entry.tool is not None:
            value, rationale = self._extract(entry, chance)
            if value and rng.random() < self.faults.wrong_extraction:
                value = misread(value, rng)
            return {"criterion": entry.criterion, "rationale": rationale, "credit": call_of(entry.tool, value)}
        credit, rationale = self._judge(entry, chance)
        if rng.random() < self.faults.wrong_credit:
            credit = {0: 0.5, 0.5: rng.choice([0, 1]), 1: 0.5}[credit]
        return {"criterion": entry.criterion, "rationale": rationale, "credit": credit}

    def write(self, scoring: dict[str, object]) -> str:
        """The scoring as JSON, malformed at the stated rate."""
        text = json.dumps(scoring)
        rng = rng_of("malformed", *self._seed)
        if self.task.repaired or rng.random() >= self.faults.malformed:
            return text
        match rng.randrange(3):
            case 0:
                return text[: len(text) // 2]
            case 1:
                return text.replace('"criterion": "The ', '"criterion": "That the ', 1)
            case _:
                return re.sub(r'"credit": (?:"[^"]*"|[\d.]+)', '"credit": true', text, count=1)

    def _extract(self, entry: ChecklistEntry, chance: float) -> tuple[str, str]:
        """(value, rationale); the value is empty if the response gives none."""
        final, implied = self.answer.final, self.answer.implied
        target = None if entry.target is None else value_text(entry.target)
        if final is None:
            p_implied = self.faults.extracts_implied_of_evasion if self.answer.evades else self.faults.extracts_implied
            p_image, p_target = self.faults.self_answers, self.faults.copies_target
            stated = ("", "The response gives no final answer.")
        else:
            if implied is not None and same_value(implied, final):
                implied = None
            p_implied = self.faults.prefers_implied
            p_image, p_target = self.faults.prefers_image, self.faults.prefers_target
            stated = (final, f"The last box holds {final}.")
        if chance < p_implied:
            return (implied, f"The analysis leads to {implied}.") if implied else stated
        if self.scene_answer is not None and chance < p_implied + p_image:
            return self.scene_answer, f"The answer is {self.scene_answer}."
        if target is not None and chance < p_implied + p_target:
            return target, f"The response means {target}."
        return stated

    def _judge(self, entry: ChecklistEntry, chance: float) -> tuple[float, str]:
        """(credit, rationale)."""
        if (cell := parse_step_criterion(entry.criterion)) is not None:
            return self._judge_step(cell, entry.reference, chance)
        if is_answer_criterion(entry.criterion):
            return self._judge_answer(entry.reference, chance)
        reference, words = set(_words(entry.reference)), set(_words(self.task.response))
        share = len(reference & words) / len(reference) if reference else 0.0
        return (1 if share == 1 else 0.5 if share >= 0.5 else 0), f"{share:.0%} of the reference's words are there."

    def _judge_answer(self, reference: str, chance: float) -> tuple[float, str]:
        final, implied = self.answer.final, self.answer.implied
        follows = implied is not None and same_value(implied, reference)
        sees = self.scene_answer is not None and same_value(self.scene_answer, reference)
        if final is not None:
            credit = credit_of(final, reference)
            if credit < 1 and follows and chance < self.faults.prefers_implied:
                return 1, "The analysis leads to the reference."
            if credit < 1 and sees and chance < self.faults.prefers_implied + self.faults.prefers_image:
                return 1, "The image shows the reference."
            return credit, f"The last box holds {final}."
        p_credit = self.faults.credits_evasion if self.answer.evades else self.faults.credits_implied
        if chance < p_credit and (self.answer.evades or follows):
            return 1, "What the response describes is the reference."
        if sees and p_credit <= chance < p_credit + self.faults.self_answers:
            return 1, "The image shows the reference."
        return 0, "The response gives no final answer."

    def _judge_step(self, cell: str, reference: str, chance: float) -> tuple[float, str]:
        truth = next(iter(mentions(reference).objects), Mention())
        objects = [item for item in self.answer.objects if item.cell == cell]
        if objects:
            credit = min(step_credit(item, truth) for item in objects)
            return credit, f"At {cell} the response describes {' and '.join(map(_phrase, objects))}."
        visible = self.scene is not None and any(item.cell == cell for item in self.scene.objects)
        if visible and chance < self.faults.credits_seen_step:
            return 1, "The image shows it."
        return 0, f"The response says nothing of {cell}."


def _phrase(item: Mention) -> str:
    return " ".join(filter(None, (item.size, item.colour, item.shape))) or "something"


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _entry(row: dict[str, str]) -> ChecklistEntry:
    criterion, reference = str(row["criterion"]), str(row["reference"])
    if reference in VERIFIERS:
        return ChecklistEntry(criterion, reference, "")
    try:
        call = parse_verifier_call(reference)
    except ValueError:
        return ChecklistEntry(criterion, None, reference)
    return ChecklistEntry(criterion, call.name, "", call.arguments.get("target"))


def _unescape(text: str | None) -> str:
    """Undo the fence's escapes, and replace lone surrogates, which no verifier call can hold."""
    return (text or "").replace("&lt;", "<").encode("utf-8", "replace").decode()


def _implied_answer(question: str, parts: ResponseParts) -> str | None:
    objects = tuple(
        SceneObject(cell=item.cell, size=item.size, colour=item.colour, shape=item.shape)
        for item in parts.objects
        if None not in item
    )
    if not objects and not parts.words:
        return None
    query = _query(question)
    if query is not None and query.task != "word" and not objects:
        return None
    return answer_question(question, View(objects, parts.words[-1] if parts.words else None))


def _query(question: str) -> Query | None:
    return parse_question(question.lower().replace("?", " ?"))


def _options(question: str) -> list[tuple[str, str]]:
    """(letter, text) of the options that follow the question."""
    return _OPTION.findall(question.rpartition("?")[2])
