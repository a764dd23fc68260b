"""Whether an abnormal response gives away an answer that it should not have: rules, no model.

Looked for is the target of every verifiable criterion that the annotation says is not met. A boxed value that verifies
is always a leak. Where a response must not know the answer at all (off-topic text, circumlocution, symbolic bluff) any
mention of the target is one, too. The others may touch on it by design: an unfinished analysis, a wrong answer or a
wrong final selection may name the right value on the way (RLR³, section 5.5); they leak if they give it as the answer.
"""

import re

from rubricworks.evaluation.audit.annotations import Annotation
from rubricworks.evaluation.audit.values import DESERVED, Failure
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
"""Characters of a last line that can be nothing but an answer."""


def leak_of(
    question: str, response: str, rubric: Rubric, annotations: tuple[Annotation, ...], failure: Failure
) -> str | None:
    """What gives the answer away, in words; None if nothing does."""
    boxed = last_boxed(response)
    if boxed and failure.mode == "no_final_answer":
        return f"it has a boxed answer, {boxed[:60]!r}"
    clueless = failure.mode == "irrelevant" or failure.attack in ("circumlocution", "symbolic_bluff")
    for criterion, annotation in zip(rubric.criteria, annotations, strict=True):
        if criterion.verifier is None or annotation.credit is None or annotation.credit >= DESERVED:
            continue
        if boxed and _verifies(criterion.reference, answer_predict(response, criterion.reference)):
            return f"its boxed answer meets {criterion.criterion!r}"
        if clueless and mentions_target(response, criterion.reference, question):
            return f"it mentions the target of {criterion.criterion!r}"
        if any(mentions_target(f"answer: {part}", criterion.reference) for part in stated_answers(response)):
            return f"it states the target of {criterion.criterion!r}"
    return None


def mentions_target(text: str, reference: str, question: str = "") -> bool:
    """Whether a text holds the target of a verifier's call as words of its own; of a list, every entry.

    Args:
        question: what it names gives nothing away by being named, unless it is given as the answer.

    >>> mentions_target("there are 13 of them", "expr_verify(target='3')")
    False
    >>> mentions_target("there are three of them", "expr_verify(target='3')")
    True
    """
    call = parse_verifier_call(reference)
    found = [gives_away(text, target, question) for target in target_texts(call)]
    return bool(found) and (all(found) if call.name == "list_verify" else any(found))


def stated_answers(response: str) -> list[str]:
    """What the response gives as its answer in words: behind "the answer is", or as a short last line."""
    stated = [match[1] for match in _STATED.finditer(response)]
    last = response.strip().rpartition("\n")[2].strip()
    return [*stated, last] if "\n" in response.strip() and len(last) <= _LAST_LINE else stated


def _verifies(reference: str, call: str) -> bool:
    try:
        return run_verifier(reference, call) >= DESERVED
    except (CannotVerify, ValueError):
        return False
