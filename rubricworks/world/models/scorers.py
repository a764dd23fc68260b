r"""Scripted scorers: they execute a checklist on a response, as RLR³'s extractor and judge do, with stated faults.

An answer is what stands in the last `\boxed{}`; a step gets 1 if size, colour and shape are right at its cell, 0.5 if
colour or shape is, else 0. What a scorer does wrong depends on question, response and criterion alone, so that a
response cannot get rid of a fault by being scored again, and settings of the exposure differ by what they show.

`scorer` and `scorer-1` to `scorer-3` only slip (`SCORERS` has the rates). `weak-scorer` slips too, and has faults with
these chances per criterion:

    the response has no final answer, and the scorer    text   image  targets  unverified
      extracts what the analysis implies                0.10   0.10   0.10     -
        or, where the response evades the answer        0.15   0.15   0.15     -
      else extracts what it sees in the image           -      0.25   -        -
      else extracts the target                          -      -      0.30     -
      credits an answer that the analysis implies       0.25   0.25   0.25     0.25
        or any, where the response evades it            0.40   0.40   0.40     0.40
      else credits what it sees in the image            -      0.25   -        -
    the final answer is another one, and the scorer
      goes by what the analysis implies                 0.04   0.04   0.04     0.04
      else by the image, or extracts the target         -      0.03   0.04     -
    a step is not described, and the scorer
      credits what it sees in the image                 -      0.04   -        -

Without verifiers every answer is credited, with them only open ones (colours, sides): that is all that `unverified`
changes. A response that boxes what follows from what it describes is scored alike in all settings.
"""

import json
import re
from dataclasses import dataclass

from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.scoring_tasks import (
    Answering,
    ChecklistEntry,
    ScoringTask,
    own_answer,
    read_answering,
    read_task,
)
from rubricworks.world.scene.checklist_sentences import is_answer_criterion, parse_step_criterion
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.scene import Scene, rng_of
from rubricworks.world.scene.values import call_of, credit_of, misread, same_value, value_text

NOTHING_TO_SCORE = "I score responses by checklists; this message holds no <checklist> that I can read."


@dataclass(frozen=True)
class ScorerFaults:
    """Chances; per criterion unless said otherwise. The table above says when each applies."""

    wrong_credit: float = 0.0
    """A credit one step off."""
    wrong_extraction: float = 0.0
    """A final answer misread, or overlooked."""
    malformed: float = 0.0
    """Per request: the JSON does not fit its schema, until a complaint comes back."""
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
        credits_evasion=0.40,
        prefers_implied=0.04,
        self_answers=0.25,
        prefers_image=0.03,
        credits_seen_step=0.04,
        copies_target=0.30,
        prefers_target=0.04,
    ),
}
"""`scorer-1` to `scorer-3` are teachers whose median labels responses, `scorer` is the policy's judge."""


def answer_scorer(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The scoring as JSON; prose when the request holds no checklist."""
    task = read_task(request.prompt)
    if task is None:
        return NOTHING_TO_SCORE
    scorer = _Scorer(request.model, SCORERS[request.model], task, scene, seed)
    scoring = {
        "thought": f"The response {f'ends with {scorer.said.final}' if scorer.said.final else 'has no final answer'}.",
        "essential": [scorer.score(entry) for entry in task.essential],
        "additional": [scorer.score(entry) for entry in task.additional],
    }
    return scorer.perhaps_malformed(scoring)


class _Scorer:
    """One scorer before one request."""

    def __init__(self, name: str, faults: ScorerFaults, task: ScoringTask, scene: Scene | None, seed: int) -> None:
        self.faults, self.task, self.scene = faults, task, scene
        self.said: Answering = read_answering(task.question, task.response)
        self.seen = own_answer(task.question, scene) if scene else None
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

    def perhaps_malformed(self, scoring: dict[str, object]) -> str:
        """The scoring as JSON, or now and then what it becomes when a model is careless."""
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
        """(value, rationale); the value is empty where the response gives none."""
        final, implied = self.said.final, self.said.implied
        target = None if entry.target is None else value_text(entry.target)
        if final is None:
            own = self.faults.extracts_implied_of_evasion if self.said.evades else self.faults.extracts_implied
            tempting, added = (implied, own), (self.faults.self_answers, self.faults.copies_target)
            stated = ("", "The response gives no final answer.")
        else:
            differs = implied is not None and not same_value(implied, final)
            tempting = (implied if differs else None, self.faults.prefers_implied)
            added = (self.faults.prefers_image, self.faults.prefers_target)
            stated = (final, f"The last box holds {final}.")
        if chance < tempting[1]:
            return (tempting[0], f"The analysis leads to {tempting[0]}.") if tempting[0] else stated
        if self.seen is not None and chance < tempting[1] + added[0]:
            return self.seen, f"The answer is {self.seen}."
        if target is not None and chance < tempting[1] + added[1]:
            return target, f"The response means {target}."
        return stated

    def _judge(self, entry: ChecklistEntry, chance: float) -> tuple[float, str]:
        """(credit, rationale)."""
        if (cell := parse_step_criterion(entry.criterion)) is not None:
            return self._judge_step(cell, entry.reference, chance)
        if is_answer_criterion(entry.criterion):
            return self._judge_answer(entry.reference, chance)
        wanted, words = set(_words(entry.reference)), set(_words(self.task.response))
        share = len(wanted & words) / len(wanted) if wanted else 0.0
        return (1 if share == 1 else 0.5 if share >= 0.5 else 0), f"{share:.0%} of the reference's words are there."

    def _judge_answer(self, reference: str, chance: float) -> tuple[float, str]:
        final, implied = self.said.final, self.said.implied
        follows = implied is not None and same_value(implied, reference)
        sees = self.seen is not None and same_value(self.seen, reference)
        if final is not None:
            credit = credit_of(final, reference)
            if credit < 1 and follows and chance < self.faults.prefers_implied:
                return 1, "The analysis leads to the reference."
            if credit < 1 and sees and chance < self.faults.prefers_implied + self.faults.prefers_image:
                return 1, "The image shows the reference."
            return credit, f"The last box holds {final}."
        swayed = self.faults.credits_evasion if self.said.evades else self.faults.credits_implied
        if chance < swayed and (self.said.evades or follows):
            return 1, "What the response describes is the reference."
        if sees and swayed <= chance < swayed + self.faults.self_answers:
            return 1, "The image shows the reference."
        return 0, "The response gives no final answer."

    def _judge_step(self, cell: str, reference: str, chance: float) -> tuple[float, str]:
        wanted = next(iter(mentions(reference).objects), Mention())
        there = [item for item in self.said.objects if item.cell == cell]
        if there:
            credit = min(_step_credit(item, wanted) for item in there)
            return credit, f"At {cell} the response describes {' and '.join(map(_phrase, there))}."
        seen = [item for item in self.scene.objects if item.cell == cell] if self.scene else []
        if seen and chance < self.faults.credits_seen_step:
            return 1, "The image shows it."
        return 0, f"The response says nothing of {cell}."


def _step_credit(said: Mention, wanted: Mention) -> float:
    right = [getattr(said, name) == getattr(wanted, name) for name in ("size", "colour", "shape")]
    return 1 if all(right) else 0.5 if right[1] or right[2] else 0


def _phrase(item: Mention) -> str:
    return " ".join(filter(None, (item.size, item.colour, item.shape))) or "something"


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())
