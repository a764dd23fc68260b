"""Rubric reward: a judge grades the response by its sample's rubric, as the training does (RubiCap, section 3.3)."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import model_validator

from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.grading import CallPer, Grader, Subject
from rubricworks.grading.images.prompts import Credits
from rubricworks.grading.images.text_reading import RapidOcr, open_text_reader
from rubricworks.llm import ChatClient, Endpoint, ImageEndpoint
from rubricworks.llm.usage import PlannedCalls, grading_calls
from rubricworks.rewards import signed_reward


class RubricScorer(Scorer):
    """Scorer of captions."""

    name: ClassVar[str] = "rubric"
    title: ClassVar[str] = "Rubric reward"
    parts: ClassVar[tuple[str, ...]] = ("reward",)
    needs: ClassVar[frozenset[Need]] = frozenset({"rubric"})
    subject: ClassVar[Subject] = "caption"

    judge: Endpoint
    """Grades by the rubric, criterion by criterion."""
    call_per: CallPer = "response"
    """One judge call per response, with all its criteria, or one per criterion (RubiCap's paper)."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        grader = await self._open_grader(context)

        async def grade(item: Item) -> list[Score]:
            rubric = context.rubrics.get(item.sample.sample_id)
            if rubric is None:
                return self._missing(item, "no rubric")
            scorecard = await grader.grade(item.sample, item.response, rubric)
            reward = signed_reward(scorecard.credits, rubric.weights)
            reason = None
            if reward is None:
                reason = next(verdict.error.value for verdict in scorecard.verdicts if verdict.error)
            evidence = scorecard.model_dump_json()
            return [
                Score(sample_id=item.sample.sample_id, part="reward", value=reward, reason=reason, evidence=evidence)
            ]

        return grade

    async def _open_grader(self, context: ScoringContext) -> Grader:
        judge = await context.client(self.judge, "judge")
        return Grader(judge, subject=self.subject, call_per=self.call_per, on_error=context.on_failure)

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        yield PlannedCalls("judge", self.judge, *grading_calls(work.responses, self.call_per))


class AnswerRubricScorer(RubricScorer):
    """Scorer of answers: the judge is shown the sample's prompt and reference answer."""

    subject: ClassVar[Subject] = "answer"


class ImageRubricScorer(RubricScorer):
    """Scorer of generated images."""

    judge: ImageEndpoint
    """Sees the image, and grades by the rubric, criterion by criterion."""
    credits: Credits = "binary"
    """1 or 0 for a criterion, or a number between."""
    text_reader: RapidOcr | ImageEndpoint | None = None
    """Reader of text in images, which decides criteria about quoted text; `rapidocr`, or a model."""
    mask_text: bool = False
    """Blank the text that the reader finds, but for quoted one, before the judge sees an image."""

    @model_validator(mode="after")
    def _mask_has_a_reader(self) -> "ImageRubricScorer":
        if self.mask_text and self.text_reader is None:
            raise ValueError("mask_text needs a text_reader, which finds the text to blank")
        return self

    def judges(self) -> str:
        names = super().judges()
        return f"{names} + {self.text_reader}" if isinstance(self.text_reader, str) else names

    async def _open_grader(self, context: ScoringContext) -> Grader:
        judge = await context.client(self.judge, "judge")
        readers: list[ChatClient] = []
        if isinstance(self.text_reader, Endpoint):
            readers.append(await context.client(self.text_reader, "text"))
        return Grader(
            judge,
            call_per=self.call_per,
            credits=self.credits,
            text_reader=open_text_reader(self.text_reader, lambda _: readers[0]),
            mask_text=self.mask_text,
            on_error=context.on_failure,
        )
