"""Writes checklists: several teachers propose, one model merges, code and an examiner have the last word (RLR³).

Each teacher writes a checklist of its own and knows nothing of the others; the merger sees their proposals numbered, in
an order drawn from the sample, without names. What code can tell to be faulty goes after each step. Where the reference
answer is trusted, it is then graded as a response would be: an essential criterion that it does not fully satisfy is a
construction error (appendix B.1), because it would punish right responses.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rubricworks.data.question_text import option_of
from rubricworks.errors import UserError
from rubricworks.llm import ChatClient, ChatError, Usage
from rubricworks.llm.question import Messages
from rubricworks.rubrics import Checklist, ErrorClass, Rubric
from rubricworks.synthesis.checklist_lint import NOTHING_ESSENTIAL, Dropped, complaint, lint_checklist
from rubricworks.synthesis.checklist_prompts import ChecklistDraft, aggregation_messages, generation_messages
from rubricworks.synthesis.verifier_guide import check_verifiers

if TYPE_CHECKING:
    from rubricworks.data.tables import Sample
    from rubricworks.grading import Grader

OTHER_TASKS = "*"
"""The key of the verifiers for tasks that are not named."""
UNSATISFIED = "the reference answer does not fully satisfy it"
NOT_EXAMINED = "the examiner could not say whether the reference answer satisfies it"


class FailedTeacher(NamedTuple):
    """A teacher that wrote no usable checklist."""

    model: str
    error: ChatError


class WrittenChecklist(NamedTuple):
    """What came of one sample."""

    rubric: Rubric | None
    """None when too few teachers wrote one, or no essential criterion is left; the last reason says which."""
    dropped: tuple[Dropped, ...]
    """Criteria that were dropped at any step, repair turns included, each with the reason; without a text where the
    reason is the whole checklist's. Turns that the cache spares are not heard again."""
    usage: Usage
    """Of teachers and merger."""
    proposals: tuple[Checklist, ...] = ()
    """What was left of each teacher's checklist, in the order of the teachers."""
    failures: tuple[FailedTeacher, ...] = ()


class ChecklistWriter:
    """Writes checklists with several teachers and a merger, or with one teacher alone."""

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
            merger: makes one checklist of the proposals; needed with several teachers.
            verifiers: task → names of the verifiers that its checklists may use; "*" for tasks that are not named,
                which without it have none.
            trust_answers: the samples' answers are right: writers are told so, and the examiner goes by them.
            examiner: grades the reference answer by the finished checklist; without it writers alone check.
            min_proposals: usable checklists that a sample must have; None means more than half of the teachers.
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
        """The verifiers that checklists of a task may use."""
        return self.verifiers.get(task or OTHER_TASKS, self.verifiers.get(OTHER_TASKS, ()))

    async def write(self, sample: "Sample") -> WrittenChecklist:
        """The checklist of one sample. Teachers that fail are told of in the result.

        Raises:
            ChatError: the merger gave no usable answer.
        """
        allowed, rules = self.allowed(sample.task), self._rules(sample)
        messages = generation_messages(sample, allowed, trusted=self.trust_answers)
        asked = [_Asking(teacher, rules) for teacher in self.teachers]
        usage = await asyncio.gather(*(self._propose(at, asked[at], messages) for at in range(len(asked))))
        total, dropped = Usage(), [fault for asking in asked for fault in asking.dropped]
        failures = []
        for asking, used in zip(asked, usage, strict=True):
            if isinstance(used, ChatError):
                failures.append(FailedTeacher(asking.client.endpoint.model, used))
            else:
                total = total.plus(used)
        proposals = [asking.checklist for asking in asked if asking.checklist is not None]

        def result(rubric: Rubric | None, *reasons: Dropped) -> WrittenChecklist:
            return WrittenChecklist(rubric, (*dropped, *reasons), total, tuple(proposals), tuple(failures))

        if len(proposals) < self.min_proposals:
            few = f"fewer than {self.min_proposals} of {len(self.teachers)} teachers wrote a usable checklist"
            return result(None, ("", few))
        checklist = proposals[0]
        if self.merger is not None and len(proposals) > 1:
            shown = _in_drawn_order(proposals, sample.sample_id)
            merging = _Asking(self.merger, rules)
            total = total.plus(
                await merging.ask(aggregation_messages(sample, shown, allowed, trusted=self.trust_answers))
            )
            dropped += merging.dropped
            assert merging.checklist is not None
            checklist = merging.checklist
        rubric, faulty = await self._examined(sample, checklist)
        return result(rubric, *faulty)

    async def _propose(self, at: int, asking: "_Asking", messages: Messages) -> Usage | ChatError:
        """One teacher's turn; a model that stands among the teachers twice is asked with another seed."""
        model = asking.client.endpoint.model
        try:
            return await asking.ask(messages, sum(other.endpoint.model == model for other in self.teachers[:at]))
        except ChatError as error:
            return error

    def _rules(self, sample: "Sample") -> dict[str, Any]:
        answers = [sample.answer] if sample.answer else []
        if sample.answer and (option := option_of(sample.answer, sample.options or ())):
            answers.append(option)
        question = sample.question or sample.prompt
        return {"answer": answers, "question": question, "allowed": self.allowed(sample.task)}

    async def _examined(self, sample: "Sample", checklist: Checklist) -> tuple[Rubric | None, list[Dropped]]:
        """Dual verification: what is left once the reference answer was graded, and what it does not satisfy."""
        rubric = checklist.rubric()
        if self.examiner is None or not self.trust_answers or not sample.answer:
            return rubric, []
        essential = Rubric(criteria=tuple(criterion for criterion in rubric.criteria if criterion.essential))
        scorecard = await self.examiner.grade(sample, answer_as_response(sample.answer), essential)
        wrong: list[Dropped] = []
        for verdict in scorecard.verdicts:
            if verdict.error not in (None, ErrorClass.UNVERIFIABLE):
                return None, [(verdict.criterion, NOT_EXAMINED)]
            if verdict.credit is None or verdict.credit < 1:
                wrong.append((verdict.criterion, UNSATISFIED))
        titles = {title for title, _ in wrong}
        left = tuple(criterion for criterion in rubric.criteria if criterion.criterion not in titles)
        if not any(criterion.essential for criterion in left):
            return None, [*wrong, ("", NOTHING_ESSENTIAL)]
        return Rubric(criteria=left), wrong


class _Asking:
    """One model's checklist with its repair turns, and what was dropped in all of them."""

    def __init__(self, client: ChatClient, rules: dict[str, Any]) -> None:
        self.client = client
        self.rules = rules
        self.checklist: Checklist | None = None
        self.dropped: list[Dropped] = []

    async def ask(self, messages: Messages, seed: int = 0) -> Usage:
        """Raises ChatError when no turn brought an essential criterion that keeps the rules."""
        return (await self.client.chat(messages, ChecklistDraft, seed, check=self._take)).usage

    def _take(self, draft: ChecklistDraft) -> None:
        self.checklist, faults = lint_checklist(draft, **self.rules)
        self.dropped += [fault for fault in faults if fault[1] != NOTHING_ESSENTIAL]
        if self.checklist is None:
            raise ValueError(complaint(faults))


def answer_as_response(answer: str) -> str:
    """What the examiner grades: the answer, and the answer again where a response has its last word."""
    return f"{answer}\n\n\\boxed{{{answer}}}"


def _in_drawn_order(proposals: Sequence[Checklist], sample_id: str) -> list[Checklist]:
    """An order that depends on the sample alone, so that no teacher always stands first."""

    def draw(at: int) -> bytes:
        return hashlib.sha256(f"{sample_id}\n{at}".encode()).digest()

    return [proposals[at] for at in sorted(range(len(proposals)), key=draw)]
