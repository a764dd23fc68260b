"""Score of images by endpoints that give one number, such as an aesthetic predictor (RubricRL, table 12).

The contract is that of the peer rewards (`grading.images.scores`); the scale is the endpoint's own. An endpoint that
rewards a training measures how well it was optimised, not how good the images are.
"""

from collections.abc import Iterator
from typing import ClassVar

from rubricworks.evaluation.scorers.scorer import Item, Score, ScoreItem, Scorer, ScoringContext, Workload
from rubricworks.grading.images.scores import score_image
from rubricworks.llm import Endpoint
from rubricworks.llm.image_tokens import image_tokens
from rubricworks.llm.usage import PlannedCalls


class AestheticScorer(Scorer):
    name: ClassVar[str] = "aesthetic"
    title: ClassVar[str] = "Aesthetic score"
    unbounded: ClassVar[tuple[str, ...]] = ("score",)

    endpoint: Endpoint
    """Answers `{"score": <number>}`."""

    async def open(self, context: ScoringContext) -> ScoreItem:
        client = await context.client(self.endpoint, "aesthetic")

        async def score(item: Item) -> list[Score]:
            return self._scores(item, [await score_image(client, item.sample, item.response)])

        return score

    def plan(self, work: Workload) -> Iterator[PlannedCalls]:
        yield PlannedCalls("aesthetic", self.endpoint, work.responses, image_tokens(self.endpoint) + 100, 10)
