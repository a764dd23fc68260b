"""Direct-Likert: a judge that sees the image rates the response as a whole, from 0 to 10 (RubiCap, section 4.1).

RubiCap's baseline without a rubric; captions that praise themselves are known to raise it.
"""

from collections.abc import Iterator
from typing import ClassVar

from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.grading.likert import LIKERT_TOKENS, POINTS, rate_caption
from rubricworks.llm import ImageEndpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import CAPTION_TOKENS, PlannedCalls


class LikertScorer(Scorer):
    name: ClassVar[str] = "likert"
    title: ClassVar[str] = "Likert rating"
    parts: ClassVar[tuple[str, ...]] = ("rating",)

    judge: ImageEndpoint
    """Sees the image and the response."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        judge = await context.client(self.judge, "likert")

        async def rate(item: Item) -> list[Score]:
            return self._scores(item, (await rate_caption(judge, item.image, item.text) / POINTS,))

        return rate

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        yield PlannedCalls(
            "likert", self.judge, work.responses, image_tokens(self.judge) + CAPTION_TOKENS + LIKERT_TOKENS, 2
        )
