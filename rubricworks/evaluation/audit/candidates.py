"""Generation of abnormal responses, with checks that reject those that do not fit their failure mode or annotation.

The writer answers `<response>…</response> <extractions>{"1": {"extracted_value": "", "credit": 0, "rationale": "…"}}
</extractions>`. A candidate is accepted if its writer does not contradict itself, it does not leak an answer, at least
one criterion deserves no credit, and two independent models both find that the annotation fits the text and the text
fits its failure mode.

Leak rules look for the target of every verifiable criterion that the annotation marks as not met. A boxed value that
verifies is always a leak. In categories whose responses must not know the answer (off-topic text, circumlocution,
symbolic bluff), any mention of the target is a leak. Other modes may name the right value on the way by design (an
unfinished analysis, a wrong answer, a wrong final selection; RLR³, section 5.5); they leak if they state it as the
answer.
"""

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, JsonValue, RootModel

from rubricworks.evaluation.audit.prompts import quality_messages, writer_messages
from rubricworks.evaluation.audit.values import CREDIT_THRESHOLD, Annotation, Case, Failure, annotate
from rubricworks.llm import ChatClient, ChatError
from rubricworks.llm.answers import parse_json, split_thought
from rubricworks.rubrics import Rubric
from rubricworks.synthesis.leaks import gives_away
from rubricworks.synthesis.targets import target_texts
from rubricworks.verifiers import CannotVerify, parse_verifier_call, run_verifier
from rubricworks.verifiers.boxed import answer_predict, last_boxed

_PARTS = re.compile(r"<response>(.*)</response>\s*<extractions>(.*)</extractions>", re.DOTALL)


class Draft(NamedTuple):
    """Abnormal response with its annotations."""

    response: str
    annotations: tuple[Annotation, ...]
    """One per criterion, in the rubric's order."""
    contradictions: tuple[str, ...]
    """Criteria on which the writer's credit and the verifier's score are on different sides of the threshold."""


def _credit(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("give the number 0, 0.5 or 1")
    return float(value) if isinstance(value, int) else value


class _Entry(BaseModel, extra="forbid", frozen=True):
    extracted_value: JsonValue = ""
    credit: Annotated[Literal[0.0, 0.5, 1.0], BeforeValidator(_credit)]  # type: ignore[valid-type]
    rationale: str = ""


class _Entries(RootModel[dict[str, _Entry]]):
    pass


def read_draft(text: str, rubric: Rubric) -> Draft:
    """Parse the writer's answer.

    Raises:
        ValueError: a part is missing or broken; the message can be shown to the writer.
    """
    parts = _PARTS.search(split_thought(text).answer)
    if parts is None:
        raise ValueError(
            "it has no <response>…</response> followed by <extractions>…</extractions>, each once and complete"
        )
    response = parts[1].strip()
    if not response:
        raise ValueError("the response between its tags is empty")
    if "<response>" in response or "<extractions>" in response:
        raise ValueError("the tags <response> and <extractions> stand more than once")
    try:
        entries = parse_json(parts[2], _Entries).root
    except ValueError as error:
        raise ValueError(f"extractions: {error}") from None
    numbers = [str(number) for number in range(1, len(rubric.criteria) + 1)]
    if sorted(entries) != sorted(numbers):
        ids = ", ".join(entries) or "none"
        raise ValueError(f"extractions has the ids {ids}; give exactly one entry for each of {', '.join(numbers)}")
    annotations, contradictions = [], []
    for number, criterion in zip(numbers, rubric.criteria, strict=True):
        entry = entries[number]
        try:
            annotation = annotate(criterion, entry.extracted_value, entry.credit, entry.rationale)
        except ValueError as error:
            raise ValueError(f"extractions, entry {number}: {error}") from None
        annotations.append(annotation)
        if annotation.credit is not None and (annotation.credit >= CREDIT_THRESHOLD) != (
            entry.credit >= CREDIT_THRESHOLD
        ):
            contradictions.append(criterion.criterion)
    return Draft(response, tuple(annotations), tuple(contradictions))


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


Rejection = Literal[
    "writer failed",
    "target unreadable",
    "annotation contradicts its verifier",
    "nothing undeserved",
    "gives the answer away",
    "quality judge failed",
    "annotation inconsistent",
    "behaviour does not match",
]
"""Reason to reject a candidate, in the order of the checks."""


class QualityVerdict(BaseModel, extra="ignore", frozen=True):
    """Verdict of one quality judge."""

    annotation_consistent: bool
    behaviour_matches: bool
    reason: str = ""


class Candidate(NamedTuple):
    """Generated abnormal response; accepted if `rejection` is None."""

    case: Case
    failure: Failure
    response: str = ""
    annotations: tuple[Annotation, ...] = ()
    rejection: Rejection | None = None
    details: str = ""
    error: ChatError | None = None
    """Error of the failed call, for a dead letter."""


class CandidateGenerator:
    """Generator of candidates: one model writes them, two others check them."""

    def __init__(self, writer: ChatClient, quality_judges: Sequence[ChatClient], *, seed: int = 0) -> None:
        if len(quality_judges) != 2:
            raise ValueError(f"{len(quality_judges)} quality judges; there are exactly two, and both must agree")
        self.writer, self.quality_judges, self.seed = writer, tuple(quality_judges), seed

    async def generate(self, case: Case, failure: Failure, attempt: int = 0) -> Candidate:
        """Write a candidate and check it.

        Args:
            attempt: number of earlier attempts at this failure of this case; each is drawn with a seed of its own.
        """
        seed = self.seed + attempt
        candidate = Candidate(case, failure)
        parse = partial(read_draft, rubric=case.rubric)
        try:
            reply = await self.writer.chat(writer_messages(case, failure), parse, seed)
        except ChatError as error:
            return candidate._replace(rejection="writer failed", details=error.message, error=error)
        draft: Draft = reply.value
        candidate = candidate._replace(response=draft.response, annotations=draft.annotations)
        if fault := find_fault(draft, case, failure):
            return candidate._replace(rejection=fault[0], details=fault[1])
        messages = quality_messages(case, failure, draft.response, draft.annotations)
        calls = [judge.chat(messages, QualityVerdict, seed) for judge in self.quality_judges]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, ChatError):
                return candidate._replace(rejection="quality judge failed", details=answer.message, error=answer)
            if isinstance(answer, BaseException):
                raise answer
        verdicts: list[QualityVerdict] = [answer.value for answer in answers]  # type: ignore[union-attr]
        for verdict in verdicts:
            if not verdict.annotation_consistent:
                return candidate._replace(rejection="annotation inconsistent", details=verdict.reason)
            if not verdict.behaviour_matches:
                return candidate._replace(rejection="behaviour does not match", details=verdict.reason)
        return candidate


def find_fault(draft: Draft, case: Case, failure: Failure) -> tuple[Rejection, str] | None:
    """Return the reason to reject a draft by rules, with details; None if it passes."""
    unreadable = [annotation.criterion for annotation in draft.annotations if annotation.credit is None]
    if unreadable:
        return "target unreadable", f"the verifier of {unreadable[0]!r} cannot read its target"
    if draft.contradictions:
        return "annotation contradicts its verifier", f"on {draft.contradictions[0]!r}"
    if all(annotation.credit is not None and annotation.credit >= CREDIT_THRESHOLD for annotation in draft.annotations):
        return "nothing undeserved", "every criterion is met"
    if leak := find_leak(case.question, draft.response, case.rubric, draft.annotations, failure):
        return "gives the answer away", leak
    return None
