"""Checklist writer: several teachers propose, one model merges, rules and an examiner check the result (RLR³).

Teachers write independently of each other; the merger sees their proposals numbered, without names, in an order drawn
from the sample's id. `lint_checklist` drops faulty criteria after each step. If the reference answer is trusted, it is
graded like a response. An essential criterion that it does not fully satisfy is a construction error (appendix B.1),
because it would penalise correct responses.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.data.question_text import option_by_letter
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Usage
from rubricworks.llm.question import Messages
from rubricworks.rubrics import Checklist, ErrorClass, Rubric
from rubricworks.synthesis.checklist_lint import NOTHING_ESSENTIAL, DroppedCriterion, lint_checklist, repair_message
from rubricworks.synthesis.checklist_prompts import ChecklistDraft, aggregation_messages, generation_messages
from rubricworks.synthesis.verifier_guide import check_verifiers

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample
    from rubricworks.grading import Grader

OTHER_TASKS = "*"
"""Key of the verifiers for tasks that have no entry of their own."""
UNSATISFIED = "the reference answer does not fully satisfy it"
NOT_EXAMINED = "the examiner could not say whether the reference answer satisfies it"


class FailedTeacher(NamedTuple):
    """A teacher that wrote no usable checklist."""

    model: str
    error: ChatError


class ChecklistResult(NamedTuple):
    """Rubric of one sample, with the proposals, dropped criteria, failures and usage behind it."""

    rubric: Rubric | None
    """None when too few teachers wrote one, or no essential criterion is left; the last reason says which."""
    dropped: tuple[DroppedCriterion, ...]
    """Criteria dropped at any step, including repair turns. The text is empty if the reason concerns the whole
    checklist. A cached answer lists only the faults of its last turn.
    """
    usage: Usage
    """Usage of the teachers and the merger."""
    proposals: tuple[Checklist, ...] = ()
    """Each teacher's checklist after the lint, in the order of the teachers."""
    failures: tuple[FailedTeacher, ...] = ()


class ChecklistWriter:
    """Checklist writer with several teachers and a merger, or with one teacher alone."""

    def __init__(
        self,
        teachers: Sequence[ChatClient],
        merger: ChatClient | None = None,
        *,
        verifiers: Mapping[str, Sequence[str]],
        trust_answers: bool = True,
        examiner: "Grader | None" = None,
        min_proposals: int | None = None,
    ) -> None:
        """
        Args:
            merger: makes one checklist of the proposals; required with several teachers.
            verifiers: task → names of the verifiers that its checklists may use; "*" for tasks without an entry,
                which otherwise have none.
            trust_answers: the samples' answers are right: the prompts say so, and the examiner relies on them.
            examiner: grades the reference answer by the finished checklist; without it only the writers check.
            min_proposals: usable checklists that a sample needs; None means more than half of the teachers.
        """
        self.teachers = tuple(teachers)
        if not self.teachers:
            raise UserError("no teacher is given; a checklist needs at least one")
        if merger is None and len(self.teachers) > 1:
            raise UserError(f"{len(self.teachers)} teachers write checklists and nobody merges them; give a merger")
        if min_proposals is not None and not 1 <= min_proposals <= len(self.teachers):
            raise UserError(
                f"min_proposals is {min_proposals}; with {len(self.teachers)} teachers it is 1 to {len(self.teachers)}"
            )
        for task, names in verifiers.items():
            check_verifiers(names, f"verifiers of {task!r}")
        self.merger = merger
        self.verifiers = {task: tuple(names) for task, names in verifiers.items()}
        self.trust_answers = trust_answers
        self.examiner = examiner
        self.min_proposals = len(self.teachers) // 2 + 1 if min_proposals is None else min_proposals

    def allowed(self, task: str | None) -> tuple[str, ...]:
        """Names of the verifiers that a task's checklists may use."""
        return self.verifiers.get(task or OTHER_TASKS, self.verifiers.get(OTHER_TASKS, ()))

    async def write(self, sample: "Sample") -> ChecklistResult:
        """Write the checklist of one sample; the result lists the teachers that failed.

        Raises:
            ChatError: the merger gave no usable answer.
        """
        allowed, rules = self.allowed(sample.task), self._rules(sample)
        messages = generation_messages(sample, allowed, trusted=self.trust_answers)
        requests = [_ChecklistRequest(teacher, rules) for teacher in self.teachers]
        usages = await asyncio.gather(*(self._propose(at, requests[at], messages) for at in range(len(requests))))
        total, dropped = Usage(), [fault for request in requests for fault in request.dropped]
        failures = []
        for request, usage in zip(requests, usages, strict=True):
            if isinstance(usage, ChatError):
                failures.append(FailedTeacher(request.client.endpoint.model, usage))
            else:
                total = total.plus(usage)
        proposals = [request.checklist for request in requests if request.checklist is not None]

        def result(rubric: Rubric | None, *reasons: DroppedCriterion) -> ChecklistResult:
            return ChecklistResult(rubric, (*dropped, *reasons), total, tuple(proposals), tuple(failures))

        if len(proposals) < self.min_proposals:
            few = f"fewer than {self.min_proposals} of {len(self.teachers)} teachers wrote a usable checklist"
            return result(None, ("", few))
        checklist = proposals[0]
        if self.merger is not None and len(proposals) > 1:
            candidates = _shuffle_by_sample(proposals, sample.sample_id)
            merge = _ChecklistRequest(self.merger, rules)
            total = total.plus(
                await merge.send(aggregation_messages(sample, candidates, allowed, trusted=self.trust_answers))
            )
            dropped += merge.dropped
            assert merge.checklist is not None
            checklist = merge.checklist
        rubric, faulty = await self._examine(sample, checklist)
        return result(rubric, *faulty)

    async def _propose(self, at: int, request: "_ChecklistRequest", messages: Messages) -> Usage | ChatError:
        """Run one teacher's turn; a model that is listed as a teacher twice gets another seed each time."""
        model = request.client.endpoint.model
        try:
            return await request.send(messages, sum(other.endpoint.model == model for other in self.teachers[:at]))
        except ChatError as error:
            return error

    def _rules(self, sample: "Sample") -> dict[str, object]:
        answers = [sample.answer] if sample.answer else []
        if sample.answer and (option := option_by_letter(sample.answer, sample.options or ())):
            answers.append(option)
        question = sample.question or sample.prompt
        return {"answer": answers, "question": question, "allowed": self.allowed(sample.task)}

    async def _examine(self, sample: "Sample", checklist: Checklist) -> tuple[Rubric | None, list[DroppedCriterion]]:
        """Dual verification: grade the reference answer and drop the essential criteria that it does not satisfy."""
        rubric = checklist.rubric()
        if self.examiner is None or not self.trust_answers or not sample.answer:
            return rubric, []
        essential = Rubric(criteria=tuple(criterion for criterion in rubric.criteria if criterion.essential))
        scorecard = await self.examiner.grade(sample, answer_as_response(sample.answer), essential)
        wrong: list[DroppedCriterion] = []
        for verdict in scorecard.verdicts:
            if verdict.error not in (None, ErrorClass.UNVERIFIABLE):
                return None, [(verdict.criterion, NOT_EXAMINED)]
            if verdict.credit is None or verdict.credit < 1:
                wrong.append((verdict.criterion, UNSATISFIED))
        titles = {title for title, _ in wrong}
        criteria = tuple(criterion for criterion in rubric.criteria if criterion.criterion not in titles)
        if not any(criterion.essential for criterion in criteria):
            return None, [*wrong, ("", NOTHING_ESSENTIAL)]
        return Rubric(criteria=criteria), wrong


class _ChecklistRequest:
    """Request for one model's checklist, repair turns included, with the criteria dropped in all of its turns."""

    def __init__(self, client: ChatClient, rules: dict[str, Any]) -> None:
        self.client = client
        self.rules = rules
        self.checklist: Checklist | None = None
        self.dropped: list[DroppedCriterion] = []

    async def send(self, messages: Messages, seed: int = 0) -> Usage:
        """Set `checklist` from the model's answer.

        Raises:
            ChatError: no turn brought an essential criterion that keeps the rules.
        """
        return (await self.client.chat(messages, ChecklistDraft, seed, check=self._accept)).usage

    def _accept(self, draft: ChecklistDraft) -> None:
        self.checklist, faults = lint_checklist(draft, **self.rules)
        self.dropped += [fault for fault in faults if fault[1] != NOTHING_ESSENTIAL]
        if self.checklist is None:
            raise ValueError(repair_message(faults))


def answer_as_response(answer: str) -> str:
    """Write the reference answer as a response: in words, and boxed as a final answer."""
    return f"{answer}\n\n\\boxed{{{answer}}}"


def _shuffle_by_sample(proposals: Sequence[Checklist], sample_id: str) -> list[Checklist]:
    """Order proposals by only the sample, so that no teacher is always first."""

    def draw(at: int) -> bytes:
        return hashlib.sha256(f"{sample_id}\n{at}".encode()).digest()

    return [proposals[at] for at in sorted(range(len(proposals)), key=draw)]
