"""The scripted judge: one verdict per criterion from the text alone, like RubiCap's reward provider.

It reads the criteria and the caption in its prompt, understands the rules of this world, and errs on a stated share of
them. An error depends on criterion and caption alone, so that judging a caption again does not remove it. A rule that
it does not understand is not met. Without tags, the text after the criteria is the caption, as a language model would
read it.
"""

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from rubricworks.world.chat import section
from rubricworks.world.scene.captions import place
from rubricworks.world.scene.parsing import mentions
from rubricworks.world.scene.rules import (
    HasAttribute,
    NamesNothingAt,
    NamesObject,
    ReadsNoWord,
    ReadsWord,
    Rule,
    holds,
    noun_phrase,
    parse_rule,
)

JUDGE_ERROR_RATE = 0.02
"""The share of verdicts that are flipped."""

NOTHING_TO_JUDGE = "I check captions against criteria; this message holds no <criteria> list that I can read."


class JudgeTask(NamedTuple):
    """A parsed request to a judge."""

    criteria: tuple[tuple[int, str, str], ...]
    """(id, title, rule) of each."""
    caption: str


def judge_reply(prompt: str) -> str:
    """The judge's JSON answer to a prompt; prose without criteria."""
    task = read_task(prompt)
    if task is None:
        return NOTHING_TO_JUDGE
    return write_verdicts(
        (number, *judge_criterion(title, rule, task.caption)) for number, title, rule in task.criteria
    )


def read_task(prompt: str) -> JudgeTask | None:
    """The criteria and the caption of a prompt; None without a list of criteria."""
    text = section(prompt, "criteria")
    criteria = _read_criteria(text) if text else None
    if not criteria:
        return None
    rest = prompt.partition("</criteria>")[2]
    caption = section(rest, "caption")
    return JudgeTask(criteria, rest.removeprefix("\n\n") if caption is None else caption)


def write_verdicts(verdicts: Iterable[tuple[int, int, str]]) -> str:
    """A judge's JSON for (id, score, reasoning) of each criterion."""
    rows = [{"id": number, "reasoning": reasoning, "score": score} for number, score, reasoning in verdicts]
    return json.dumps({"verdicts": rows})


@lru_cache(maxsize=131_072)
def judge_criterion(
    criterion: str, evaluation_rule: str, caption: str, error_rate: float = JUDGE_ERROR_RATE
) -> tuple[int, str]:
    """(score, reasoning) of one criterion."""
    rule = parse_rule(evaluation_rule)
    if rule is None:
        return 0, "cannot relate this rule to scenes"
    met = holds(rule, caption) != errs(error_rate, criterion, evaluation_rule, caption)
    return int(met), f"{_evidence(rule, caption)}; the rule is {'met' if met else 'not met'}."


def errs(error_rate: float, *question: str) -> bool:
    digest = hashlib.blake2b("\x1f".join(question).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") < error_rate * 2**32


def _evidence(rule: Rule, caption: str) -> str:
    stated = mentions(caption)
    match rule:
        case NamesObject(cell) | HasAttribute(cell) | NamesNothingAt(cell):
            objects = " and ".join(noun_phrase(item) for item in stated.objects if item.cell == cell)
            return f"The caption names {objects}" if objects else f"The caption names nothing at {place(cell)}"
        case ReadsWord() | ReadsNoWord():
            return f"The caption reads {' and '.join(stated.words) or 'no word'}"
        case _:
            return f"The caption names {len(stated.objects)} objects"


@lru_cache(maxsize=16_384)
def _read_criteria(text: str) -> tuple[tuple[int, str, str], ...] | None:
    """(id, title, rule) of each criterion; None if the list cannot be read."""
    try:
        return tuple((int(row["id"]), str(row["criterion"]), str(row["evaluation_rule"])) for row in json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None
