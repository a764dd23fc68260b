"""Rubric reward: a judge grades the response by its sample's rubric, as the training does (RubiCap, section 3.3)."""

from collections.abc import Iterator
from typing import ClassVar

from rubricworks.evaluation.scorers.scorer import (
    Item,
    Need,
    PlannedCalls,
    Score,
    ScoreItem,
    Scorer,
    ScoringContext,
    Workload,
)
from rubricworks.grading import Grader
from rubricworks.llm import Endpoint
from rubricworks.llm.token_estimates import GRADING_IN, GRADING_OUT
from rubricworks.rewards import weighted_reward


class RubricScorer(Scorer):
    name: ClassVar[str] = "rubric"
    title: ClassVar[str] = "Rubric reward"
    parts: ClassVar[tuple[str, ...]] = ("reward",)
    needs: ClassVar[frozenset[Need]] = frozenset({"rubric"})

    judge: Endpoint
    """Grades by the rubric, criterion by criterion."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        grader = Grader(await context.client(self.judge, "judge"), on_error=context.on_failure)

        async def grade(item: Item) -> list[Score]:
            rubric = context.rubrics.get(item.sample.sample_id)
            if rubric is None:
                return self._missing(item, "no rubric")
            scorecard = await grader.grade(item.sample, item.response, rubric)
            reward = weighted_reward(scorecard.credits, rubric.weights)
            reason = None
            if reward is None:
                reason = next(verdict.error.value for verdict in scorecard.verdicts if verdict.error)
            evidence = scorecard.model_dump_json()
            return [
                Score(sample_id=item.sample.sample_id, part="reward", value=reward, reason=reason, evidence=evidence)
            ]

        return grade

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        yield PlannedCalls("judge", self.judge, work.responses, GRADING_IN, GRADING_OUT)
