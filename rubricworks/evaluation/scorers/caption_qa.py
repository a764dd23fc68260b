"""CaptionQA: usefulness of a caption, as a text model's answers to questions about an image that it does not see.

A right answer earns 1, a wrong one 0. The option "the caption does not say" earns 1/n + 0.05, with n options without
it: a little more than guessing, and never more than a right answer. These rules and those of
`metrics.caption_questions` follow the benchmark's `qa.py`, with two differences. `qa.py` draws the order of options
from one generator for all questions; here the order of each question follows from seed, sample and number, so that it
does not depend on the other questions, and all captions of a sample get the same order. An answer without a letter,
which `qa.py` counts as wrong, is asked again and then missing, because the caption is examined, not the answering
model.

CapRL's reward (`accuracy`) is the share of right answers.

With `word_budgets` every model describes the image again under each limit (RubiCap, section 4.5: 100 to 600 words), and
the exam is taken from each of those captions: parts `budget_100`, … and, with the words that the captions have,
`words_100`, …. `budget_by: cut` takes the first words of the caption instead, which needs no further response.
"""

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, field_validator

from rubricworks.data.tables import read_rows
from rubricworks.evaluation.scorers.caption_prompts import StoredExam, StoredQuestion, exam_taker_messages
from rubricworks.evaluation.scorers.scorer import (
    Item,
    Need,
    Score,
    ScoreItem,
    Scorer,
    ScoringContext,
    Workload,
    gather_all,
)
from rubricworks.llm import ChatClient, Endpoint
from rubricworks.llm.usage import CAPTION_TOKENS, QUESTIONS_PER_EXAM, PlannedCalls
from rubricworks.metrics import CANNOT_ANSWER, LETTERS, extract_letter, offered_options

_ABSTENTION_BONUS = 0.05
"""Credit above guessing for the option that the caption does not say."""


class CaptionQAScorer(Scorer):
    name: ClassVar[str] = "caption_qa"
    title: ClassVar[str] = "CaptionQA"
    needs: ClassVar[frozenset[Need]] = frozenset({"exam"})

    judge: Endpoint
    """A text model that answers the exams from captions."""
    word_budgets: tuple[int, ...] = ()
    """Numbers of words, such as 100 to 600, for the curve of the score over the length."""
    budget_by: Literal["prompt", "cut"] = "prompt"
    """`prompt` states the limit in the prompt, and longer captions count as they are; `cut` cuts the response."""

    @field_validator("word_budgets")
    @classmethod
    def _rising(cls, budgets: tuple[int, ...]) -> tuple[int, ...]:
        if any(budget < 1 for budget in budgets) or list(budgets) != sorted(set(budgets)):
            raise ValueError(f"{list(budgets)}: give numbers of words in rising order, such as [100, 200, 300]")
        return budgets

    @property
    def unbounded(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"words_{budget}" for budget in self.word_budgets)

    def variants(self, prompt: str) -> dict[str, str]:
        if self.budget_by == "cut":
            return {}
        return {_variant(budget): f"{prompt} Use at most {budget} words." for budget in self.word_budgets}

    def figure_parts(self) -> tuple[str, ...]:
        return (*self.parts, *(f"{kind}_{budget}" for budget in self.word_budgets for kind in ("budget", "words")))

    async def open(self, context: ScoringContext) -> ScoreItem:
        taker = ExamTaker(await context.client(self.judge, "exam"), seed=context.seed)

        async def grade(item: Item) -> list[Score]:
            sample_id = item.sample.sample_id
            if (exam := context.exams.get(sample_id)) is None:
                return self._missing(item, "no exam")
            scores = [self._score(item, "score", await taker.take(sample_id, item.text, exam))]
            for budget in self.word_budgets:
                caption = self._budgeted(item, budget)
                if caption is None:
                    scores += [
                        Score(sample_id=sample_id, part=f"{kind}_{budget}", value=None, reason="no response")
                        for kind in ("budget", "words")
                    ]
                    continue
                scores.append(self._score(item, f"budget_{budget}", await taker.take(sample_id, caption, exam)))
                words = float(len(caption.split()))
                scores.append(Score(sample_id=sample_id, part=f"words_{budget}", value=words))
            return scores

        return grade

    def _score(self, item: Item, part: str, result: "ExamResult") -> Score:
        sample_id = item.sample.sample_id
        return Score(sample_id=sample_id, part=part, value=result.score, evidence=result.model_dump_json())

    def _budgeted(self, item: Item, budget: int) -> str | None:
        """Caption under a budget; None if the model gave none."""
        if self.budget_by == "cut":
            return " ".join(item.text.split()[:budget])
        response = item.variants.get(_variant(budget))
        return None if response is None else item.text_of(response)

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        exams = work.responses * (1 + len(self.word_budgets))
        yield PlannedCalls("exam", self.judge, exams * QUESTIONS_PER_EXAM, CAPTION_TOKENS + 150, 2)


def _variant(budget: int) -> str:
    return f"{budget} words"


class ExamAnswer(BaseModel, extra="forbid", frozen=True):
    """Scored choice for one question."""

    chosen: str
    """Text of the chosen option."""
    right: bool
    score: float


class ExamResult(BaseModel, extra="forbid", frozen=True):
    """Scored answers to all questions of an exam, from one caption."""

    answers: tuple[ExamAnswer, ...]

    @property
    def score(self) -> float:
        """CaptionQA score: mean over the questions."""
        return sum(answer.score for answer in self.answers) / len(self.answers)

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return sum(answer.right for answer in self.answers) / len(self.answers)


def option_order(count: int, *, seed: int, sample_id: str, number: int) -> tuple[int, ...]:
    """Option index at each letter: a shuffle seeded by the sha256 of `seed NUL sample NUL number`."""
    key = hashlib.sha256(f"{seed}\0{sample_id}\0{number}".encode()).digest()
    order = list(range(count))
    random.Random(int.from_bytes(key, "big")).shuffle(order)
    return tuple(order)


def score_choice(question: StoredQuestion, choice: str) -> ExamAnswer:
    """Score the choice of one of the offered options."""
    if choice == CANNOT_ANSWER:
        return ExamAnswer(chosen=choice, right=False, score=1 / len(question.options) + _ABSTENTION_BONUS)
    right = choice == question.options[LETTERS.index(question.answer)]
    return ExamAnswer(chosen=choice, right=right, score=float(right))


class ExamTaker:
    """Exam taker: one text model, with one call per question."""

    def __init__(self, client: ChatClient, *, seed: int = 0) -> None:
        self.client, self.seed = client, seed

    async def take(self, sample_id: str, caption: str, exam: StoredExam) -> ExamResult:
        """Answer all questions of an exam from a caption.

        Raises:
            ChatError: a question got no usable answer.
        """
        calls = (self._answer(sample_id, caption, number, question) for number, question in enumerate(exam.questions))
        return ExamResult(answers=tuple(await gather_all(*calls)))

    async def _answer(self, sample_id: str, caption: str, number: int, question: StoredQuestion) -> ExamAnswer:
        offered = offered_options(question.question, question.options)
        order = option_order(len(offered), seed=self.seed, sample_id=sample_id, number=number)
        options = [offered[place] for place in order]

        def read_letter(response: str) -> str:
            letter = extract_letter(response, len(options))
            if letter is None:
                raise ValueError(f"answer with one of the letters A to {LETTERS[len(options) - 1]}, and nothing else")
            return letter

        reply = await self.client.chat(exam_taker_messages(caption, question.question, options), read_letter)
        return score_choice(question, options[LETTERS.index(reply.value)])


def read_exams(table: Path) -> dict[str, StoredExam]:
    """Read a table of exams: sample_id → exam."""
    rows = read_rows(table, columns=["sample_id", "questions"])
    return {row["sample_id"]: StoredExam.model_validate_json(row["questions"]) for row in rows}
