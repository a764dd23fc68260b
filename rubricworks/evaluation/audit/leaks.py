"""Leak rules for abnormal responses: find right answers that a failing response must not give.

The rules look for the target of every verifiable criterion that the annotation marks as not met. A boxed value that
verifies is always a leak. Where a response must not know the answer at all (off-topic text, circumlocution, symbolic
bluff), any mention of the target is a leak. Other modes may name the right value on the way by design (an unfinished
analysis, a wrong answer, a wrong final selection; RLR³, section 5.5); they leak if they state it as the answer.
"""

import re

from rubricworks.evaluation.audit.annotations import Annotation
from rubricworks.evaluation.audit.values import CREDIT_THRESHOLD, Failure
from rubricworks.rubrics import Rubric
from rubricworks.synthesis.leaks import gives_away
from rubricworks.synthesis.targets import target_texts
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier
from rubricworks.verifiers.boxed import answer_predict, last_boxed

_STATED = re.compile(
    r"\b(?:answer|result|solution|choice|selection)\b\s*(?:is|are|=|:|would be|must be|equals)\s*"
    r"([^\n;]{1,120}?)(?:[.!?](?=\s|$)|\n|;|$)",
    re.IGNORECASE,
)
_LAST_LINE = 40
"""Longest last line, in characters, that is taken for an answer by itself."""


def find_leak(
    question: str, response: str, rubric: Rubric, annotations: tuple[Annotation, ...], failure: Failure
) -> str | None:
    """Describe the leak in words; None if there is none."""
    boxed = last_boxed(response)
    if boxed and failure.mode == "no_final_answer":
        return f"it has a boxed answer, {boxed[:60]!r}"
    clueless = failure.mode == "irrelevant" or failure.attack in ("circumlocution", "symbolic_bluff")
    for criterion, annotation in zip(rubric.criteria, annotations, strict=True):
        if criterion.verifier is None or annotation.credit is None or annotation.credit >= CREDIT_THRESHOLD:
            continue
        if boxed and _verifies(criterion.reference, answer_predict(response, criterion.reference)):
            return f"its boxed answer meets {criterion.criterion!r}"
        if clueless and mentions_target(response, criterion.reference, question):
            return f"it mentions the target of {criterion.criterion!r}"
        if any(mentions_target(f"answer: {part}", criterion.reference) for part in stated_answers(response)):
            return f"it states the target of {criterion.criterion!r}"
    return None


def mentions_target(text: str, reference: str, question: str = "") -> bool:
    """Return True if a text contains the target of a verifier's call as separate words; for a list, every entry.

    Args:
        question: words of the question are no leak unless the text states them as the answer.

    >>> mentions_target("there are 13 of them", "expr_verify(target='3')")
    False
    >>> mentions_target("there are three of them", "expr_verify(target='3')")
    True
    """
    call = parse_verifier_call(reference)
    mentions = [gives_away(text, target, question) for target in target_texts(call)]
    return bool(mentions) and (all(mentions) if call.name == "list_verify" else any(mentions))


def stated_answers(response: str) -> list[str]:
    """Find the answers that a response states in words: after "the answer is", or as a short last line."""
    stated = [match[1] for match in _STATED.finditer(response)]
    last = response.strip().rpartition("\n")[2].strip()
    return [*stated, last] if "\n" in response.strip() and len(last) <= _LAST_LINE else stated


def _verifies(reference: str, call: str) -> bool:
    try:
        return run_verifier(reference, call) >= CREDIT_THRESHOLD
    except (CannotVerify, ValueError):
        return False
