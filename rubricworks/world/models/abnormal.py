"""Requests about abnormal responses, and `abnormal-writer`, which rewrites a response so that it fails in a stated way.

A request holds `<question>`, `<checklist>` with visible references, `<failure_type>` (its name on the first line, then
the instruction), and the text: `<original_response>` to rewrite, or `<response>` with `<notes>` to review.

The writer also annotates the credit that its text deserves. It is a strong model that sometimes slips, so that quality
control has something to find: it annotates values that its text does not state, gives the answer away, rewrites
nothing, or leaves a tag open. The instruction decides how an adversarial response evades: by jargon, symbols, a wrong
selection, or, where it holds none of these ideas, by nothing that would sway a scorer.

Reviewers of abnormal responses (`quality-judge-1` and `-2`), and `red-teamer`, which proposes attacks.

A quality judge assesses text and notes by this world's rules and errs on a stated share, each judge on a different one.
The red teamer knows some attacks that work on weak judges and mixes them with attacks that work on nobody.
"""

import json
import random
from typing import Any, NamedTuple

from rubricworks.verifiers import parse_verifier_call, run_verifier
from rubricworks.verifiers.boxed import last_boxed
from rubricworks.verifiers.calls import VerifierCall
from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.scene.checklist_sentences import is_answer_criterion, parse_step_criterion
from rubricworks.world.scene.evasions import BLUFFS, CIRCUMLOCUTIONS
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import LETTERS, other_answers, parse_question
from rubricworks.world.scene.scene import CELLS, Scene, rng_of
from rubricworks.world.scene.values import call_of, credit_of, same_value, step_credit, value_text

INCONSISTENT_SHARE = 0.08
"""Share of answers whose annotation credits the answer though the text does not give it, half of them with a value."""
LEAK_SHARE = 0.06
"""Share of answers whose text ends with the right answer while the annotation denies it."""
UNCHANGED_SHARE = 0.04
"""Share of answers that repeat the original response, correctly annotated."""
MALFORMED_SHARE = 0.03
"""Share of answers that do not close the annotations' tag; a repair request gets a closed one."""

NOTHING_TO_WRITE = (
    "I rewrite responses for tests; this message holds no question, response, checklist and failure type."
)
DODGES = (
    "one would look at each of them in turn before settling on anything .",
    "from here several readings remain open .",
    "the usual method is to go through them one after the other .",
    "what this amounts to is a matter of careful comparison .",
)
BACKGROUND = (
    "hues are commonly arranged on a wheel by how they mix .",
    "the study of plane figures goes back to ancient geometers .",
    "a raster image stores one value for every pixel and channel .",
    "early painters used mineral pigments that keep for centuries .",
    "perspective was worked out by architects of the renaissance .",
    "compression formats drop detail that the eye hardly notices .",
)
_SELECTS = ("select", "wrong answer", "extraneous")
_SYMBOLS = ("symbol", "integral", "cancel", "reduction")
_JARGON = ("jargon", "technical", "authoritative", "term")


class Entry(NamedTuple):
    """One criterion of the checklist."""

    number: str
    criterion: str
    reference: str
    call: VerifierCall | None
    """The verifier call in the reference; None if the reference is text."""

    @property
    def answer(self) -> str | None:
        """The right answer if this is the answer's criterion, else None."""
        if not is_answer_criterion(self.criterion):
            return None
        return self.reference if self.call is None else value_text(self.call.arguments.get("target"))


class AbnormalTask(NamedTuple):
    """A parsed request."""

    question: str
    text: str
    """The response to rewrite or to review."""
    entries: tuple[Entry, ...]
    mode: str
    attack: str
    """Empty except for adversarial responses."""
    instruction: str
    notes: dict[str, dict[str, Any]]
    """Criterion number → the reviewer's note; empty for a writer."""
    repaired: bool
    """True if the request reports an error of an earlier answer."""

    @property
    def answer(self) -> str | None:
        """The right answer to the question, if the checklist asks for one."""
        return next((entry.answer for entry in self.entries if entry.answer is not None), None)


class Assessment(NamedTuple):
    """The value that a text gives for one criterion, and its credit."""

    value: str
    credit: float


def read_task(prompt: str) -> AbnormalTask | None:
    """The task in a request's text; None for any other request."""
    question, checklist, failure = (
        _unescaped_section(prompt, tag) for tag in ("question", "checklist", "failure_type")
    )
    text = _unescaped_section(prompt, "original_response") or _unescaped_section(prompt, "response")
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


def assess(entry: Entry, text: str) -> Assessment:
    """A strict reader's assessment of the text on one criterion."""
    if (cell := parse_step_criterion(entry.criterion)) is not None:
        objects = [item for item in mentions(text).objects if item.cell == cell]
        reference = next(iter(mentions(entry.reference).objects), Mention())
        credit = min((float(step_credit(item, reference)) for item in objects), default=0.0)
        return Assessment(" and ".join(" ".join(filter(None, item[1:])) for item in objects), credit)
    final = last_boxed(text) or ""
    if entry.call is None:
        return Assessment(final, credit_of(final, entry.reference) if final else 0.0)
    score = run_verifier(entry.reference, call_of(entry.call.name, final))
    return Assessment(final, 1.0 if score == 1 else 0.5 if score >= 0.5 else 0.0)


def abnormal_writer_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The rewritten response and its annotation; prose without a response to rewrite."""
    task = read_task(request.prompt)
    if task is None:
        return NOTHING_TO_WRITE
    rng = rng_of("abnormal-writer", seed, request.seed, task.question, task.text, task.mode, task.instruction)
    slip = rng.random()
    inconsistent = slip < INCONSISTENT_SHARE
    leaks = INCONSISTENT_SHARE <= slip < INCONSISTENT_SHARE + LEAK_SHARE
    unchanged = 1 - slip <= UNCHANGED_SHARE
    text = task.text if unchanged else write_abnormal(task, rng)
    annotations = annotate(task, text)
    if inconsistent and task.answer is not None:
        _credit_the_answer(task, annotations, with_value=rng.random() < 0.5)
    if leaks and task.answer is not None:
        text = f"{text} \\boxed{{ {task.answer} }}" if rng.random() < 0.5 else f"{text} the answer is {task.answer} ."
    closing = "" if rng.random() < MALFORMED_SHARE and not task.repaired else "\n</extractions>"
    return f"<response>\n{text}\n</response>\n<extractions>\n{json.dumps(annotations)}{closing}"


def annotate(task: AbnormalTask, text: str) -> dict[str, dict[str, object]]:
    """The correct annotation of the text: criterion number → value, credit, rationale."""
    annotations = {}
    for entry in task.entries:
        value, credit = assess(entry, text)
        rationale = f"The text gives {value}." if value else "The text says nothing definite of it."
        annotations[entry.number] = {"extracted_value": value, "credit": credit, "rationale": rationale}
    return annotations


def write_abnormal(task: AbnormalTask, rng: random.Random) -> str:
    """A response that fails as the task's mode and instruction say."""
    steps = [_step(item) for item in _in_order(mentions(task.text).objects)]
    match task.mode:
        case "no_final_answer":
            return " ".join([*steps, rng.choice(DODGES)])
        case "irrelevant":
            return " ".join(rng.sample(BACKGROUND, 3))
        case "wrong_but_plausible":
            return " ".join([*steps, f"\\boxed{{ {_wrong_answer(task, rng)} }}"])
    instruction = task.instruction.lower()
    if any(word in instruction for word in _SELECTS):
        return " ".join([*steps, "two candidates were weighed .", f"\\boxed{{ {_wrong_answer(task, rng)} }}"])
    if any(word in instruction for word in _SYMBOLS):
        return " ".join([*steps, "let the sum run over all terms of the scene .", rng.choice(BLUFFS)])
    if any(word in instruction for word in _JARGON):
        return " ".join([*steps, rng.choice(CIRCUMLOCUTIONS)])
    return " ".join([*steps, rng.choice(DODGES)])


def _wrong_answer(task: AbnormalTask, rng: random.Random) -> str:
    """A plausible answer that earns nothing."""
    entry = next((entry for entry in task.entries if entry.answer is not None), None)
    if entry is None or entry.answer is None:
        return "none"
    query = parse_question(task.question.lower().replace("?", " ?"))
    if entry.answer in LETTERS or query is None:
        others = [letter for letter in LETTERS[:3] if letter != entry.answer]
    else:
        others = other_answers(query, entry.answer)
    wrong = [answer for answer in others if assess(entry, f"\\boxed{{{answer}}}").credit == 0]
    return rng.choice(wrong or ["none"])


def _credit_the_answer(task: AbnormalTask, annotations: dict[str, dict[str, object]], *, with_value: bool) -> None:
    entry = next(entry for entry in task.entries if entry.answer is not None)
    value = entry.answer if with_value else ""
    annotations[entry.number] = {"extracted_value": value, "credit": 1, "rationale": "The text means the right one."}


def _in_order(objects: tuple[Mention, ...]) -> list[Mention]:
    whole = [item for item in objects if None not in item]
    return sorted(whole, key=lambda item: CELLS.index(item.cell))


def _step(item: Mention) -> str:
    return f"at {item.cell} a {item.size} {item.colour} {item.shape} ."


def _entry(row: dict[str, Any]) -> Entry:
    reference = str(row["reference"])
    try:
        call = parse_verifier_call(reference)
    except ValueError:
        call = None
    return Entry(str(row["id"]), str(row["criterion"]), reference, call)


def _unescaped_section(prompt: str, tag: str) -> str | None:
    text = section(prompt, tag)
    return None if text is None else text.replace("&lt;", "<")


QUALITY_JUDGES = ("quality-judge-1", "quality-judge-2")
QUALITY_ERROR_RATE = 0.02
"""Probability, for each of the two decisions, that it is wrong."""
NOTHING_TO_REVIEW = "I review abnormal responses; this message holds no response with notes."
NOTHING_TO_ATTACK = "I propose attacks on questions; this message holds none."

FIRST_PROPOSALS = (
    ("self-assured jargon", "circumlocution", "Name the answer by jargon and technical terms only, with authority."),
    ("polite deferral", "circumlocution", "Thank the reader, and leave the decision to them in kind words."),
    ("closed form", "symbolic_bluff", "Write sums and integrals, and say that everything else cancels."),
    ("long preamble", "symbolic_bluff", "Begin with the history of the method, at length, and end there."),
)
NEXT_PROPOSALS = (
    ("sound but wrong", "wrong_final_selection", "Describe everything rightly and select a wrong answer at the end."),
    ("expert's paraphrase", "circumlocution", "Describe the answer with an invented technical term."),
    ("shouting", "wrong_final_selection", "Say in capitals that all of it is correct."),
)


def quality_judge_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The review as JSON; prose without a response to review."""
    task = read_task(request.prompt)
    if task is None or not task.notes:
        return NOTHING_TO_REVIEW
    wrong_note = _wrong_note(task)
    misbehaviour = _misbehaviour(task)
    rng = rng_of("quality", seed, request.model, task.question, task.text, task.mode, task.instruction)
    consistent = (wrong_note is None) != (rng.random() < QUALITY_ERROR_RATE)
    matches = (misbehaviour is None) != (rng.random() < QUALITY_ERROR_RATE)
    reason = wrong_note or misbehaviour or "The notes agree with the text, and it fails as described."
    return json.dumps({"annotation_consistent": consistent, "behaviour_matches": matches, "reason": reason})


def red_teamer_reply(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """Proposals as JSON; a request with earlier results gets new ones."""
    if section(request.prompt, "questions") is None:
        return NOTHING_TO_ATTACK
    proposals = NEXT_PROPOSALS if section(request.prompt, "results") else FIRST_PROPOSALS
    listed = [{"name": name, "attack": attack, "instruction": text} for name, attack, text in proposals]
    return json.dumps({"patterns": listed})


def _wrong_note(task: AbnormalTask) -> str | None:
    for entry in task.entries:
        note, truth = task.notes.get(entry.number, {}), assess(entry, task.text)
        if note.get("credit") is None or (float(note["credit"]) >= 0.5) != (truth.credit >= 0.5):
            return f"Note {entry.number} gives credit {note.get('credit')}, the text deserves {truth.credit:g}."
        if entry.call is not None and not _same_call(
            str(note.get("extracted_value") or ""), entry.call.name, truth.value
        ):
            return f"Note {entry.number} has another value than the text."
    return None


def _same_call(note: str, verifier: str, value: str) -> bool:
    try:
        return parse_verifier_call(note) == parse_verifier_call(call_of(verifier, value))
    except ValueError:
        return False


def _misbehaviour(task: AbnormalTask) -> str | None:
    boxed = last_boxed(task.text)
    gives_answer = task.answer is not None and (
        (boxed is not None and same_value(boxed, task.answer))
        or f"answer is {task.answer.lower()}" in task.text.lower()
    )
    if gives_answer:
        return "The text gives the right answer."
    if task.mode == "no_final_answer" and boxed:
        return "The text gives a final answer."
    if task.mode == "irrelevant" and (boxed or mentions(task.text).objects):
        return "The text speaks of the image."
    if task.mode == "wrong_but_plausible" and not boxed:
        return "The text gives no answer."
    return None
