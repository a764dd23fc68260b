"""Tournament: a pairwise judge compares every two models on every sample, and Elo ratings sum it up (CapArena).

Every pair is compared in both orders, since a caption's position influences judges. One row per model, sample and
earlier model, whose name is in `against`. The ratings are computed from the judgments in the evidence
(`evaluation.ratings`).
"""

import asyncio
import json
from collections.abc import Iterator
from itertools import takewhile
from typing import ClassVar

from rubricworks.evaluation.scorers.comparisons.pairwise import PositionTally, compare
from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.llm import ChatError, ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import COMPARISON_IN, COMPARISON_OUT, PlannedCalls
from rubricworks.rubrics import Response


class TournamentScorer(Scorer):
    name: ClassVar[str] = "tournament"
    title: ClassVar[str] = "Tournament"
    parts: ClassVar[tuple[str, ...]] = ("win",)
    needs_field: ClassVar[bool] = True

    judge: ImageEndpoint
    """Sees the image and two captions."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        judge = await context.client(self.judge, "tournament")
        tally = context.tallies.setdefault(self.name, PositionTally())

        async def play(item: Item, other: str, response: Response) -> Score:
            texts = (item.text, item.text_of(response))
            try:
                result = await compare(judge, item.image, *texts, order="both", seed=context.seed)
            except ChatError as error:
                context.on_failure(self.failed_call(item, error))
                reason = error.error_class.value
                return Score(sample_id=item.sample.sample_id, part="win", value=None, reason=reason, against=other)
            tally.add(result)
            judgments = [
                {"first": own_first, "judgment": judgment.judgment, "reason": judgment.reason}
                for judgment, own_first in zip(result.judgments, result.own_first, strict=True)
            ]
            return Score(
                sample_id=item.sample.sample_id,
                part="win",
                value=result.win,
                against=other,
                evidence=json.dumps({"judgments": judgments}, ensure_ascii=False),
            )

        async def grade(item: Item) -> list[Score]:
            others = takewhile(lambda entry: entry[0] != item.model, item.field.items())
            return list(await asyncio.gather(*(play(item, *other) for other in others)))

        return grade

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        models = 1 + (work.compared // max(1, work.responses - work.compared))
        pairs = models * (models - 1) // 2 * (work.responses // models)
        yield PlannedCalls(
            "tournament", self.judge, 2 * pairs, image_tokens(self.judge) + COMPARISON_IN, COMPARISON_OUT
        )
