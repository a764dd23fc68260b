"""Makes abnormal responses and turns away those that are not what they are said to be.

One is kept if its writer does not contradict itself, it gives no answer away, there is something that it does not
deserve, and two independent models both find that the annotation fits the text and the text its failure mode.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.audit.annotations import Annotation
from rubricworks.evaluation.audit.drafts import Draft, read_draft
from rubricworks.evaluation.audit.leaks import leak_of
from rubricworks.evaluation.audit.prompts import quality_messages, writer_messages
from rubricworks.evaluation.audit.values import DESERVED, Case, Failure
from rubricworks.llm import ChatClient, ChatError

Reason = Literal[
    "writer failed",
    "target unreadable",
    "annotation contradicts its verifier",
    "nothing undeserved",
    "gives the answer away",
    "quality judge failed",
    "annotation inconsistent",
    "behaviour does not match",
]
"""Why a candidate was turned away, in the order in which it is looked for."""


class QualityVerdict(BaseModel):
    """What one quality judge says."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    annotation_consistent: bool
    behaviour_matches: bool
    reason: str = ""


class Candidate(NamedTuple):
    """An abnormal response that was made; kept unless it was rejected."""

    case: Case
    failure: Failure
    response: str = ""
    annotations: tuple[Annotation, ...] = ()
    rejected: Reason | None = None
    details: str = ""
    error: ChatError | None = None
    """Of the call that failed, for a dead letter."""


class CandidateMaker:
    """Writes candidates with one model and has them checked by two others."""

    def __init__(self, writer: ChatClient, quality_judges: Sequence[ChatClient], *, seed: int = 0) -> None:
        if len(quality_judges) != 2:
            raise ValueError(f"{len(quality_judges)} quality judges; there are exactly two, and both must agree")
        self.writer, self.quality_judges, self.seed = writer, tuple(quality_judges), seed

    async def make(self, case: Case, failure: Failure) -> Candidate:
        """A candidate, rejected with the reason or not."""
        candidate = Candidate(case, failure)
        read = partial(read_draft, rubric=case.rubric)
        try:
            reply = await self.writer.chat(writer_messages(case, failure), read, self.seed)
        except ChatError as error:
            return candidate._replace(rejected="writer failed", details=error.message, error=error)
        draft: Draft = reply.value
        candidate = candidate._replace(response=draft.response, annotations=draft.annotations)
        if fault := fault_of(draft, case, failure):
            return candidate._replace(rejected=fault[0], details=fault[1])
        messages = quality_messages(case, failure, draft.response, draft.annotations)
        asked = [judge.chat(messages, QualityVerdict, self.seed) for judge in self.quality_judges]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, ChatError):
                return candidate._replace(rejected="quality judge failed", details=answer.message, error=answer)
            if isinstance(answer, BaseException):
                raise answer
        verdicts: list[QualityVerdict] = [answer.value for answer in answers]  # type: ignore[union-attr]
        for verdict in verdicts:
            if not verdict.annotation_consistent:
                return candidate._replace(rejected="annotation inconsistent", details=verdict.reason)
            if not verdict.behaviour_matches:
                return candidate._replace(rejected="behaviour does not match", details=verdict.reason)
        return candidate


def fault_of(draft: Draft, case: Case, failure: Failure) -> tuple[Reason, str] | None:
    """What rules alone find wrong with a draft."""
    unreadable = [annotation.criterion for annotation in draft.annotations if annotation.credit is None]
    if unreadable:
        return "target unreadable", f"the verifier of {unreadable[0]!r} cannot read its target"
    if draft.contradicted:
        return "annotation contradicts its verifier", f"on {draft.contradicted[0]!r}"
    if all(annotation.credit is not None and annotation.credit >= DESERVED for annotation in draft.annotations):
        return "nothing undeserved", "every criterion is met"
    if leak := leak_of(case.question, draft.response, case.rubric, draft.annotations, failure):
        return "gives the answer away", leak
    return None
