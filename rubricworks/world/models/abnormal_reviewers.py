"""Reviewers of abnormal responses (`quality-judge-1` and `-2`), and `red-teamer`, which proposes attacks.

A quality judge assesses text and notes by this world's rules and errs on a stated share, each judge on a different one.
The red teamer knows some attacks that work on weak judges and mixes them with attacks that work on nobody.
"""

import json

from rubricworks.verifiers import parse_verifier_call
from rubricworks.verifiers.boxed import last_boxed
from rubricworks.world.chat import ChatRequest, section
from rubricworks.world.models.abnormal import AbnormalTask, assess, read_task
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.scene import Scene, rng_of
from rubricworks.world.scene.values import call_of, same_value

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
