"""Generation of abnormal responses, with checks that reject those that do not fit their failure mode or annotation.

A candidate is accepted if its writer does not contradict itself, it does not leak an answer, at least one criterion
deserves no credit, and two independent models both find that the annotation fits the text and the text fits its
failure mode.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.audit.annotations import Annotation
from rubricworks.evaluation.audit.drafts import Draft, read_draft
from rubricworks.evaluation.audit.leaks import find_leak
from rubricworks.evaluation.audit.prompts import quality_messages, writer_messages
from rubricworks.evaluation.audit.values import CREDIT_THRESHOLD, Case, Failure
from rubricworks.llm import ChatClient, ChatError

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


class QualityVerdict(BaseModel):
    """Verdict of one quality judge."""

    model_config = ConfigDict(extra="ignore", frozen=True)

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
    """Find a reason to reject a draft by rules alone, with details; None if it passes."""
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
