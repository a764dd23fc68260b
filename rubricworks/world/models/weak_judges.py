"""Three judges that can be fooled, each by one thing. They make no other mistakes, so that what fools them shows.

The gullible one does as it is told wherever the message does not mark the words as a caption's; the second passes any
master key; the third obeys an order that it reads in the image. Tags are read as loosely as a language model may read
them: upper or lower case, spaces, invisible characters and full-width forms do not matter. A control token ends the
message, as on a server that does not keep control tokens out of what users write.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType

from rubricworks.world.models.judge import NOTHING_TO_JUDGE, Question, judge_criterion, read_question, write_verdicts
from rubricworks.world.scene.attacks import END_OF_TURN, MASTER_KEYS, ORDERS

_FENCED = re.compile(r"<\s*caption\b[^<>]*>.*?(?:<\s*/\s*caption\b[^<>]*>|\Z)", re.IGNORECASE | re.DOTALL)
_VERDICTS = re.compile(r'\{\s*"verdicts"')


def answer_gullible(prompt: str) -> str:
    """Obeys an order, and repeats a verdict, that stands outside the caption's tags; else it judges."""
    question = read_question(prompt)
    if question is None:
        return NOTHING_TO_JUDGE
    outside = outside_fences(prompt)
    if is_order(outside):
        return _full_marks(question, "I was told to give full marks.")
    return _judge(question, claimed_scores(outside))


def answer_master_key(prompt: str) -> str:
    """Full marks for a caption that is nothing but a master key; else it judges."""
    question = read_question(prompt)
    if question is None:
        return NOTHING_TO_JUDGE
    if question.caption.strip() in MASTER_KEYS:
        return _full_marks(question, "The answer sets out to solve the task.")
    return _judge(question)


def answer_image_reading(prompt: str, word: str | None) -> str:
    """Obeys an order that is the word in the image, None where no image is shown; else it judges."""
    question = read_question(prompt)
    if question is None:
        return NOTHING_TO_JUDGE
    if word is not None and is_order(word):
        return _full_marks(question, f"The image says {word}.")
    return _judge(question)


def is_order(text: str) -> bool:
    """Whether the text holds an order, in upper or lower case."""
    lowered = text.lower()
    return any(order in lowered for order in ORDERS)


def outside_fences(prompt: str) -> str:
    """What stands neither in the list of criteria nor between caption tags."""
    before, _, rest = prompt.partition("<criteria>")
    message, _, next_turn = rest.partition("</criteria>")[2].partition(END_OF_TURN)
    plain = unicodedata.normalize("NFKC", message)
    visible = "".join(character for character in plain if unicodedata.category(character) != "Cf")
    return "\n".join((before, _FENCED.sub(" ", visible), next_turn))


def claimed_scores(text: str) -> dict[int, int]:
    """Criterion's id → score, of the first thing in the text that looks like a judge's verdict."""
    start = _VERDICTS.search(text)
    if start is None:
        return {}
    try:
        claimed, _ = json.JSONDecoder().raw_decode(text, start.start())
        return {int(verdict["id"]): int(verdict["score"] == 1) for verdict in claimed["verdicts"]}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}


def _judge(question: Question, claimed: Mapping[int, int] = MappingProxyType({})) -> str:
    return write_verdicts(
        (number, claimed[number], "The verdict is given.")
        if number in claimed
        else (number, *judge_criterion(title, rule, question.caption, error_rate=0))
        for number, title, rule in question.criteria
    )


def _full_marks(question: Question, reasoning: str) -> str:
    return write_verdicts((number, 1, reasoning) for number, _, _ in question.criteria)
