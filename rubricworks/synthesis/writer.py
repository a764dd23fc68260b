"""Rubric writer: turns a committee's captions and the student's into a sample's rubric (RubiCap, section 3.2).

A model proposes the criteria; this module checks them by the method's rules and reports each dropped criterion with its
reason. The committee's names never reach the writer model: captions are numbered in an order drawn from the sample's
id, so that no member always stands first, and the numbers are mapped back to names afterwards.
"""

import hashlib
import math
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, Usage
from rubricworks.rubrics import Criterion, Rubric
from rubricworks.synthesis.prompts import Coverage, RubricDraft, writer_messages

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample

_WEIGHTS = (1.0, 2.0, 3.0)
_MAX_GUARDS = 3
"""Number of standing guards that the prompt asks for; only they need no candidate to support them."""
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"\s*model\s*(\d+)\s*", re.IGNORECASE)


class Candidate(BaseModel):
    """One committee member's caption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    captioner: str = Field(min_length=1)
    """Name of the member, for the record; never shown to the writer model."""
    caption: str
    model: str = ""
    """Model of the member, where members share one."""


class RubricResult(BaseModel):
    """Rubric of one sample, with the dropped criteria and the usage."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    rubric: Rubric | None
    """None when no criterion is left: the student fails nowhere, or no proposal passed the checks."""
    dropped: tuple[tuple[str, str], ...]
    """Titles of the dropped proposals, each with the reason."""
    usage: Usage


class RubricWriter:
    """Rubric writer with one model."""

    def __init__(
        self,
        client: ChatClient,
        *,
        coverage: Coverage = "discriminative",
        guards: bool = False,
        consensus: int | None = None,
    ) -> None:
        """
        Args:
            coverage: criteria only where the student fails (the paper), or for the whole consensus.
            guards: ask for the standing guards against padding a caption with guesses (not in the paper).
            consensus: candidates that must state an element; None means ceil(K/2) of K candidates.
        """
        if coverage not in ("discriminative", "full"):
            raise UserError(f"coverage is {coverage!r}; choose discriminative or full")
        if consensus is not None and consensus < 1:
            raise UserError(f"consensus is {consensus}; at least 1 candidate must state an element")
        self.client = client
        self.coverage: Coverage = coverage
        self.guards = guards
        self.consensus = consensus
        self._warned = False

    async def write(
        self, sample: "Sample", candidates: Sequence[Candidate], student_captions: Sequence[str]
    ) -> RubricResult:
        """Write the rubric of one sample.

        Raises:
            ChatError: the writer model gave no usable answer.
            ValueError: no candidates, or no student captions with discriminative coverage.
        """
        if not candidates:
            raise ValueError(f"sample {sample.label}: writing needs at least one candidate")
        if not student_captions and self.coverage == "discriminative":
            raise ValueError(f"sample {sample.label}: discriminative coverage needs at least one student caption")
        self._warn_if_one_model(candidates)
        threshold = math.ceil(len(candidates) / 2) if self.consensus is None else self.consensus
        if threshold > len(candidates):
            reason = f"only {len(candidates)} candidates are there for a consensus of {threshold}"
            return RubricResult(rubric=None, dropped=(("", reason),), usage=Usage())
        ordered = _shuffle_by_sample(candidates, sample.sample_id)
        messages = writer_messages(
            sample,
            student_captions,
            [candidate.caption for candidate in ordered],
            threshold=threshold,
            coverage=self.coverage,
            guards=self.guards,
        )
        reply = await self.client.chat(messages, RubricDraft)
        rubric, dropped = self._check(reply.value, [candidate.captioner for candidate in ordered], threshold)
        return RubricResult(rubric=rubric, dropped=tuple(dropped), usage=reply.usage)

    def _check(
        self, draft: RubricDraft, names: list[str], threshold: int
    ) -> tuple[Rubric | None, list[tuple[str, str]]]:
        """Split a draft into a rubric of the criteria that pass the method's checks and the others with reasons."""
        criteria: list[Criterion] = []
        dropped: list[tuple[str, str]] = []
        titles: set[tuple[str, ...]] = set()
        guards = 0
        for proposed in draft.rubrics:
            teachers = _member_names(proposed.reference_teachers, names)
            is_guard = self.guards and not proposed.reference_teachers and guards < _MAX_GUARDS
            title = tuple(_WORD.findall(proposed.criterion.casefold()))
            reason = proposal_fault(proposed.criterion, proposed.evaluation_rule, proposed.weight)
            if not reason and title in titles:
                reason = "it repeats an earlier criterion"
            if not reason and not is_guard:
                if len(teachers) < threshold:
                    reason = f"{len(teachers)} of {len(names)} candidates state it; the consensus is {threshold}"
                elif self.coverage == "discriminative" and proposed.student_already_met:
                    reason = "the student already meets it"
            if not reason:
                try:
                    fields = proposed.model_dump() | {"reference_teachers": teachers}
                    criterion = Criterion(**fields)
                except ValidationError as error:
                    reason = f"{error.errors()[0]['loc'][0]}: {error.errors()[0]['msg']}"
            if reason:
                dropped.append((proposed.criterion, reason))
                continue
            criteria.append(criterion)
            titles.add(title)
            guards += is_guard
        return (Rubric(criteria=tuple(criteria)) if criteria else None), dropped

    def _warn_if_one_model(self, candidates: Sequence[Candidate]) -> None:
        models = {candidate.model or candidate.captioner for candidate in candidates}
        if len(models) == 1 and len(candidates) > 1 and not self._warned:
            self._warned = True
            warnings.warn(
                f"all {len(candidates)} candidates come from one model: what it gets wrong every time passes for "
                "consensus; a committee of different models checks itself better",
                stacklevel=3,
            )


def _shuffle_by_sample(candidates: Sequence[Candidate], sample_id: str) -> list[Candidate]:
    """Order candidates by only the sample: the same in every run, and no member is first in all samples."""

    def draw(indexed: tuple[int, Candidate]) -> bytes:
        index, candidate = indexed
        return hashlib.sha256(f"{sample_id}\n{candidate.captioner}\n{index}".encode()).digest()

    return [candidate for _, candidate in sorted(enumerate(candidates), key=draw)]


def _member_names(numbered: Sequence[str], names: list[str]) -> tuple[str, ...]:
    """Map "Model 1", … to members' names, each once; texts that name no candidate are ignored."""
    matches = (_NUMBERED.fullmatch(text) for text in numbered)
    places = sorted({int(match[1]) for match in matches if match})
    return tuple(names[place - 1] for place in places if 1 <= place <= len(names))


def proposal_fault(title: str, evaluation_rule: str, weight: float) -> str:
    """Return the reason for dropping a proposed criterion, regardless of the others; empty if there is none."""
    if not _WORD.search(title):
        return "it has no title"
    if not evaluation_rule.strip():
        return "its evaluation rule is blank"
    if weight not in _WEIGHTS:
        return f"its weight {weight:g} is not 1, 2 or 3"
    return ""
