"""Rubric reward: a judge grades the response by its sample's rubric, as the training does (RubiCap, section 3.3)."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import Field, model_validator

from rubricworks.data.tables import Sample
from rubricworks.evaluation.scorers.scorer import Item, Need, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.grading import CallPer, Grader, Subject
from rubricworks.grading.images.prompts import Credits
from rubricworks.grading.images.text_reading import RapidOcr, open_text_reader
from rubricworks.llm import ChatClient, ChatError, Endpoint, ImageEndpoint
from rubricworks.llm.usage import PlannedCalls, grading_calls
from rubricworks.rewards import signed_reward
from rubricworks.rubrics import ErrorClass, Response, Rubric


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
        grader = await self.open_grader(context)

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

    async def open_grader(self, context: ScoringContext) -> Grader:
        """Grader as the settings say."""
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

    async def open_grader(self, context: ScoringContext) -> Grader:
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


class BestOfN(ImageRubricScorer):
    """Choice among images by their rubric reward, in place of a training (RubricRL, Table 7)."""

    name: ClassVar[str] = "best_of_n"
    draws: int = Field(default=2, ge=2)
    """Images drawn for each that is kept: 2 with four images per prompt are the paper's 4 best of 8."""

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        yield PlannedCalls("best of n", self.judge, *grading_calls(self.draws * work.responses, self.call_per))

    async def reward(self, grader: Grader, sample: Sample, image: Response, rubric: Rubric | None) -> float | ChatError:
        """Reward of an image, or why there is none."""
        if rubric is None:
            return ChatError(ErrorClass.UNVERIFIABLE, f"{sample.sample_id} has no rubric to choose by")
        scorecard = await grader.grade(sample, image, rubric)
        value = signed_reward(scorecard.credits, rubric.weights)
        failures = [verdict.error for verdict in scorecard.verdicts if verdict.error]
        return ChatError(failures[0], "the judge failed, so no image is the best") if value is None else value


def best_of(prompts: Sequence[str], rewards: Sequence[float | ChatError], draws: int) -> list[int | ChatError]:
    """Numbers of the images that are kept, one per prompt of `prompts`, the best of all that were drawn for its text.

    Args:
        rewards: of `draws` images for each of the prompts, in their order.
    """
    drawn: dict[str, list[int]] = {}
    for number in range(len(rewards)):
        drawn.setdefault(prompts[number // draws], []).append(number)
    choices: dict[str, Iterator[int | ChatError]] = {}
    for prompt, numbers in drawn.items():
        judged = [(reward, number) for number in numbers if not isinstance(reward := rewards[number], ChatError)]
        failed = [reward for number in numbers if isinstance(reward := rewards[number], ChatError)]
        choices[prompt] = iter([*(number for _, number in sorted(judged, key=lambda entry: -entry[0])), *failed])
    return [next(choices[prompt]) for prompt in prompts]
