"""What a writer or reviewer of abnormal responses understands of a request, and what a text deserves in this world.

A request holds `<question>`, `<checklist>` with references in sight, `<failure_type>` (its name on the first line, then
the instruction), and the text: `<original_response>` to rewrite, or `<response>` with `<notes>` to review.
"""

import json
from typing import Any, NamedTuple

from rubricworks.verifiers import parse_verifier_call, run_verifier
from rubricworks.verifiers.boxed import last_boxed
from rubricworks.verifiers.calls import VerifierCall
from rubricworks.world.chat import section
from rubricworks.world.scene.checklist_sentences import is_answer_criterion, parse_step_criterion
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.values import call_of, credit_of, value_text


class Entry(NamedTuple):
    """One criterion of the checklist."""

    number: str
    criterion: str
    reference: str
    call: VerifierCall | None
    """Of its verifier; None where the reference is words."""

    @property
    def answer(self) -> str | None:
        """The right answer, where this is the criterion of the answer."""
        if not is_answer_criterion(self.criterion):
            return None
        return self.reference if self.call is None else value_text(self.call.arguments.get("target"))


class AbnormalTask(NamedTuple):
    """A whole request."""

    question: str
    text: str
    """To rewrite, or to review."""
    entries: tuple[Entry, ...]
    mode: str
    attack: str
    """Empty but for adversarial responses."""
    instruction: str
    notes: dict[str, dict[str, Any]]
    """Number → what was noted; empty for a writer."""
    repaired: bool
    """Whether an earlier answer came back with a complaint."""

    @property
    def answer(self) -> str | None:
        """The right answer to the question, if the checklist asks for one."""
        return next((entry.answer for entry in self.entries if entry.answer is not None), None)


class Desert(NamedTuple):
    """What a text states on one criterion, and its credit."""

    value: str
    credit: float


def read_task(prompt: str) -> AbnormalTask | None:
    """The task in a request's text; None when it is none of these."""
    question, checklist, failure = (_words(prompt, tag) for tag in ("question", "checklist", "failure_type"))
    text = _words(prompt, "original_response") or _words(prompt, "response")
    if question is None or text is None or failure is None:
        return None
    try:
        entries = tuple(map(_entry, json.loads(checklist or "")))
        notes = json.loads(section(prompt, "notes") or "{}")
    except (ValueError, KeyError, TypeError):
        return None
    name, _, instruction = failure.partition("\n")
    mode, _, attack = name.partition(" / ")
    repaired = "cannot be used" in prompt.rpartition("</failure_type>")[2]
    return AbnormalTask(question, text, entries, mode, attack, instruction, notes, repaired)


def desert(entry: Entry, text: str) -> Desert:
    """What a strict reader finds in the text on one criterion."""
    if (cell := parse_step_criterion(entry.criterion)) is not None:
        there = [item for item in mentions(text).objects if item.cell == cell]
        wanted = next(iter(mentions(entry.reference).objects), Mention())
        credit = min((_step_credit(item, wanted) for item in there), default=0.0)
        return Desert(" and ".join(" ".join(filter(None, item[1:])) for item in there), credit)
    final = last_boxed(text) or ""
    if entry.call is None:
        return Desert(final, credit_of(final, entry.reference) if final else 0.0)
    score = run_verifier(entry.reference, call_of(entry.call.name, final))
    return Desert(final, 1.0 if score == 1 else 0.5 if score >= 0.5 else 0.0)


def _step_credit(said: Mention, wanted: Mention) -> float:
    right = [getattr(said, name) == getattr(wanted, name) for name in ("size", "colour", "shape")]
    return 1.0 if all(right) else 0.5 if right[1] or right[2] else 0.0


def _entry(row: dict[str, Any]) -> Entry:
    reference = str(row["reference"])
    try:
        call = parse_verifier_call(reference)
    except ValueError:
        call = None
    return Entry(str(row["id"]), str(row["criterion"]), reference, call)


def _words(prompt: str, tag: str) -> str | None:
    text = section(prompt, tag)
    return None if text is None else text.replace("&lt;", "<")
