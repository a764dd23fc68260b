r"""`abnormal-writer`: rewrites a response so that it fails in a stated way, and annotates what its text deserves.

It is a strong model that sometimes slips, so that there is something for quality control to find: it annotates values
that its text does not state, gives the answer away, rewrites nothing, or leaves a tag open. What an adversarial
response says follows from the instruction: jargon, symbols, a wrong selection, or, where the instruction holds none of
these ideas, nothing that would sway anybody.
"""

import json
import random

from rubricworks.world.chat import ChatRequest
from rubricworks.world.models.abnormal_tasks import AbnormalTask, desert, read_task
from rubricworks.world.scene.evasions import BLUFFS, CIRCUMLOCUTIONS
from rubricworks.world.scene.parsing import Mention, mentions
from rubricworks.world.scene.questions import LETTERS, other_answers, parse_question
from rubricworks.world.scene.scene import CELLS, Scene, rng_of

INCONSISTENT_SHARE = 0.08
"""Of the answers: the annotation credits the answer though the text does not give it, half of them with a value."""
LEAK_SHARE = 0.06
"""Of the answers: the text gives the right answer at its end, and the annotation says that it does not."""
UNCHANGED_SHARE = 0.04
"""Of the answers: the response is the original one, truly annotated."""
MALFORMED_SHARE = 0.03
"""Of the answers: the tag of the annotations is not closed; mended when asked again."""

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


def answer_abnormal_writer(request: ChatRequest, scene: Scene | None, seed: int) -> str:
    """The rewritten response and its annotation; prose when there is nothing to rewrite."""
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
    """What the text deserves, truly: number → value, credit, rationale."""
    found = {}
    for entry in task.entries:
        value, credit = desert(entry, text)
        rationale = f"The text gives {value}." if value else "The text says nothing definite of it."
        found[entry.number] = {"extracted_value": value, "credit": credit, "rationale": rationale}
    return found


def write_abnormal(task: AbnormalTask, rng: random.Random) -> str:
    """A response that fails as asked."""
    steps = [_step(item) for item in _in_order(mentions(task.text).objects)]
    match task.mode:
        case "no_final_answer":
            return " ".join([*steps, rng.choice(DODGES)])
        case "irrelevant":
            return " ".join(rng.sample(BACKGROUND, 3))
        case "wrong_but_plausible":
            return " ".join([*steps, f"\\boxed{{ {_wrong_answer(task, rng)} }}"])
    asked = task.instruction.lower()
    if any(word in asked for word in _SELECTS):
        return " ".join([*steps, "two candidates were weighed .", f"\\boxed{{ {_wrong_answer(task, rng)} }}"])
    if any(word in asked for word in _SYMBOLS):
        return " ".join([*steps, "let the sum run over all terms of the scene .", rng.choice(BLUFFS)])
    if any(word in asked for word in _JARGON):
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
    wrong = [one for one in others if desert(entry, f"\\boxed{{{one}}}").credit == 0]
    return rng.choice(wrong or ["none"])


def _credit_the_answer(task: AbnormalTask, annotations: dict[str, dict[str, object]], *, with_value: bool) -> None:
    entry = next(entry for entry in task.entries if entry.answer is not None)
    value = entry.answer if with_value else ""
    annotations[entry.number] = {"extracted_value": value, "credit": 1, "rationale": "The text means the right one."}


def _in_order(objects: tuple[Mention, ...]) -> list[Mention]:
    whole = [item for item in objects if None not in item]
    return sorted(whole, key=lambda item: CELLS.index(item.cell))  # type: ignore[arg-type]


def _step(item: Mention) -> str:
    return f"at {item.cell} a {item.size} {item.colour} {item.shape} ."
