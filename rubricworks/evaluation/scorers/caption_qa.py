"""CaptionQA: usefulness of a caption, as a text model's answers to questions about an image that it does not see.

A right answer earns 1, a wrong one 0. The option that the caption does not say earns 1/n + 0.05 with n options of the
question's own, a little more than guessing, and no more than a right answer. These rules and those of
`metrics.caption_questions` are the benchmark's `qa.py`. It draws the options' order from one generator for all
questions; here each question's follows from seed, sample and number, so that it does not depend on what else is asked,
and every caption of a sample faces the same order. An answer without a letter, which `qa.py` counts as wrong, is asked
again and then missing: the model that answers is not what is examined.

CapRL's reward (`accuracy`) comes from the same answers: the share that is right.
"""

import hashlib
import random

from pydantic import BaseModel, ConfigDict

from rubricworks.evaluation.scorers.caption_prompts import Exam, ExamQuestion, exam_taker_messages
from rubricworks.evaluation.scorers.gather import all_of
from rubricworks.llm import ChatClient
from rubricworks.metrics import CANNOT_ANSWER, LETTERS, extract_letter, offered_options

_ABOVE_GUESSING = 0.05


class ExamAnswer(BaseModel):
    """What was chosen of one question."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chosen: str
    """The option's text."""
    right: bool
    score: float


class TakenExam(BaseModel):
    """One caption's answers, a question each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answers: tuple[ExamAnswer, ...]

    @property
    def score(self) -> float:
        """CaptionQA's figure, mean over the questions."""
        return sum(answer.score for answer in self.answers) / len(self.answers)

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return sum(answer.right for answer in self.answers) / len(self.answers)


def option_order(count: int, *, seed: int, sample_id: str, number: int) -> tuple[int, ...]:
    """Which option stands at each letter: a shuffle, its generator seeded by sha256 of `seed NUL sample NUL number`."""
    key = hashlib.sha256(f"{seed}\0{sample_id}\0{number}".encode()).digest()
    order = list(range(count))
    random.Random(int.from_bytes(key, "big")).shuffle(order)
    return tuple(order)


def judged_answer(question: ExamQuestion, chosen: str) -> ExamAnswer:
    """What choosing one of the offered options earns."""
    if chosen == CANNOT_ANSWER:
        return ExamAnswer(chosen=chosen, right=False, score=1 / len(question.options) + _ABOVE_GUESSING)
    right = chosen == question.options[LETTERS.index(question.answer)]
    return ExamAnswer(chosen=chosen, right=right, score=float(right))


class ExamTaker:
    """Puts exams to one text model, a call for each question."""

    def __init__(self, client: ChatClient, *, seed: int = 0) -> None:
        self.client, self.seed = client, seed

    async def take(self, sample_id: str, caption: str, exam: Exam) -> TakenExam:
        """The answers to all questions from a caption.

        Raises:
            ChatError: one of the questions was not answered.
        """
        asks = (self._answer(sample_id, caption, number, one) for number, one in enumerate(exam.questions))
        return TakenExam(answers=tuple(await all_of(*asks)))

    async def _answer(self, sample_id: str, caption: str, number: int, question: ExamQuestion) -> ExamAnswer:
        offered = offered_options(question.question, question.options)
        order = option_order(len(offered), seed=self.seed, sample_id=sample_id, number=number)
        shown = [offered[place] for place in order]

        def read(response: str) -> str:
            letter = extract_letter(response, len(shown))
            if letter is None:
                raise ValueError(f"answer with one of the letters A to {LETTERS[len(shown) - 1]}, and nothing else")
            return letter

        reply = await self.client.chat(exam_taker_messages(caption, question.question, shown), read)
        return judged_answer(question, shown[LETTERS.index(reply.value)])
