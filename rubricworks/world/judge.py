"""The scripted judge: one verdict per criterion from the words alone, as RubiCap's reward provider gives it.

It reads the criteria and the caption in its prompt, understands the rules of this world, and errs on a stated share of
them. The error depends on criterion and caption alone, so that the same question always gets the same answer, and a
caption cannot get rid of an error by being judged again. A rule that it does not understand is not met.
"""

import hashlib
import json
from functools import lru_cache

from rubricworks.world.captions import place
from rubricworks.world.chat import section
from rubricworks.world.parsing import mentions
from rubricworks.world.rules import HasAttribute, NamesObject, ReadsWord, Rule, holds, noun_phrase, parse_rule

JUDGE_ERROR_RATE = 0.02
"""The share of verdicts that are flipped."""

NOTHING_TO_JUDGE = "I check captions against criteria; this message holds no <criteria> list with a <caption>."


def answer_judge(prompt: str) -> str:
    """The judge's JSON answer to a prompt; prose when there is nothing to judge."""
    criteria, caption = section(prompt, "criteria"), section(prompt, "caption")
    listed = _read_criteria(criteria) if criteria else None
    if not listed or caption is None:
        return NOTHING_TO_JUDGE
    verdicts = []
    for number, title, rule in listed:
        score, reasoning = judge_criterion(title, rule, caption)
        verdicts.append({"id": number, "reasoning": reasoning, "score": score})
    return json.dumps({"verdicts": verdicts})


@lru_cache(maxsize=131_072)
def judge_criterion(criterion: str, evaluation_rule: str, caption: str) -> tuple[int, str]:
    """(score, reasoning) of one criterion."""
    rule = parse_rule(evaluation_rule)
    if rule is None:
        return 0, "cannot relate this rule to scenes"
    met = holds(rule, caption) != _errs(criterion, evaluation_rule, caption)
    return int(met), f"{_evidence(rule, caption)}; the rule is {'met' if met else 'not met'}."


def _errs(*question: str) -> bool:
    digest = hashlib.blake2b("\x1f".join(question).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") < JUDGE_ERROR_RATE * 2**32


def _evidence(rule: Rule, caption: str) -> str:
    stated = mentions(caption)
    match rule:
        case NamesObject(cell, _) | HasAttribute(cell, _):
            there = " and ".join(noun_phrase(item) for item in stated.objects if item.cell == cell)
            return f"The caption names {there}" if there else f"The caption names nothing at {place(cell)}"
        case ReadsWord():
            return f"The caption reads {' and '.join(stated.words) or 'no word'}"
        case _:
            return f"The caption names {len(stated.objects)} objects"


@lru_cache(maxsize=16_384)
def _read_criteria(text: str) -> tuple[tuple[int, str, str], ...] | None:
    """(id, title, rule) of each criterion; None when the list cannot be read."""
    try:
        return tuple((int(row["id"]), str(row["criterion"]), str(row["evaluation_rule"])) for row in json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None
