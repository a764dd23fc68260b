"""What a scorer of this world understands of a scoring request, and of the response in it.

A request holds `<question>`, `<response>` and `<checklist>`; a reference is the name of a verifier, its call with the
target, or ground truth in words. Nothing else is known to who reads it.
"""

import json
import re
from typing import Any, NamedTuple

from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.boxed import last_boxed
from rubricworks.verifiers.calls import SIGNATURES
from rubricworks.world.chat import section
from rubricworks.world.scene.captions import Seen, View
from rubricworks.world.scene.evasions import bluffs, circumlocutes
from rubricworks.world.scene.parsing import Mention
from rubricworks.world.scene.questions import Query, answer_query, parse_question
from rubricworks.world.scene.responses import ResponseParts, read_response
from rubricworks.world.scene.scene import SceneObject

_LONGEST_ANSWER = 2_000
_OPTION = re.compile(r"(?<![\w-])([A-F])[.:)]?\s+(\w+)")


class ChecklistEntry(NamedTuple):
    """One criterion as the request shows it."""

    criterion: str
    tool: str | None
    """The verifier to call; None where credit is to be given."""
    reference: str
    """Ground truth in words; empty where a tool is named."""
    target: Any = None
    """The verifier's target, where the request shows it."""


class ScoringTask(NamedTuple):
    """A whole request."""

    question: str
    response: str
    essential: tuple[ChecklistEntry, ...]
    additional: tuple[ChecklistEntry, ...]
    repaired: bool
    """Whether an earlier answer came back with a complaint."""


class Answering(NamedTuple):
    """What a response says."""

    objects: tuple[Mention, ...]
    """That it describes, outside its boxes."""
    final: str | None
    """In its last box; None without one, or with an empty one."""
    implied: str | None
    """What follows from the objects that it describes, stated or not."""
    evades: bool
    """It talks around the answer, or claims that a derivation yields it."""


def read_task(prompt: str) -> ScoringTask | None:
    """The task in a request's text; None when it holds no checklist."""
    question, response, checklist = (section(prompt, tag) for tag in ("question", "response", "checklist"))
    try:
        listed = json.loads(checklist or "")
        essential, additional = (tuple(map(_entry, listed[name])) for name in ("essential", "additional"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    repaired = bool(prompt.rpartition("</checklist>")[2].strip())
    return ScoringTask(_as_written(question), _as_written(response), essential, additional, repaired)


def read_answering(question: str, response: str) -> Answering:
    """What the response says, of the answer to the question too."""
    said = read_response(response)
    final = (last_boxed(response) or "")[:_LONGEST_ANSWER]
    evades = circumlocutes(response) or bluffs(response)
    return Answering(said.objects, final or None, _implied(question, said), evades)


def own_answer(question: str, seen: Seen) -> str | None:
    """What somebody answers who sees this: of a multiple-choice question the letter."""
    query = _query(question)
    answer = answer_query(query, seen) if query else None
    options = _options(question)
    if answer is None or not options:
        return answer
    return next((letter for letter, option in options if option == answer), None)


def _entry(row: dict[str, str]) -> ChecklistEntry:
    criterion, reference = str(row["criterion"]), str(row["reference"])
    if reference in SIGNATURES:
        return ChecklistEntry(criterion, reference, "")
    try:
        call = parse_verifier_call(reference)
    except ValueError:
        return ChecklistEntry(criterion, None, reference)
    return ChecklistEntry(criterion, call.name, "", call.arguments.get("target"))


def _as_written(text: str | None) -> str:
    """Without the fence's escapes, and without halves of characters, which no call can hold."""
    return (text or "").replace("&lt;", "<").encode("utf-8", "replace").decode()


def _implied(question: str, said: ResponseParts) -> str | None:
    objects = tuple(
        SceneObject(cell=item.cell, size=item.size, colour=item.colour, shape=item.shape)  # type: ignore[arg-type]
        for item in said.objects
        if None not in item
    )
    if not objects and not said.words:
        return None
    query = _query(question)
    if query is not None and query.task != "word" and not objects:
        return None
    return own_answer(question, View(objects, said.words[-1] if said.words else None))


def _query(question: str) -> Query | None:
    return parse_question(question.lower().replace("?", " ?"))


def _options(question: str) -> list[tuple[str, str]]:
    """(letter, text) of the options that follow the question."""
    return _OPTION.findall(question.rpartition("?")[2])
